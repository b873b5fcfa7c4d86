/** Schedules and bridges: what is published later and again, and what is copied from and to other brokers. */
import { html } from '../ui.js';
import { call, newKey } from '../api.js';
import { ago, bytes, count, plural, time, visible, words } from '../format.js';
import { useList, useResource } from '../live.js';
import { address, refine } from '../router.js';
import { toast } from '../state.js';
import { confirm } from '../parts/dialog.js';
import { Filter, Tabs } from '../parts/fields.js';
import { Mark } from '../parts/icons.js';
import { oneLine } from '../parts/payload.js';
import { Advice, Close, Empty, Loading, Note, Partial, ProblemNote, Reason, Time } from '../parts/states.js';
import { Table } from '../parts/table.js';

const CREATE = 'penstock schedule create report-due report/due now --cron @hourly';
const MISSED = /** @type {Record<string, string>} */ ({ skip: 'skipped', once: 'published once', all: 'all published' });

/** @param {{query: Record<string, string>}} props */
export function Schedules({ query }) {
  const isBridges = query.tab === 'bridges';
  return html`<div class="page-head"><h1>Schedules and bridges</h1></div>
    <${Tabs} label="Schedules or bridges" value=${isBridges ? 'bridges' : 'schedules'} onChange=${(tab) => refine({ tab: tab === 'bridges' ? tab : '', name: '', prefix: '' })} tabs=${[['schedules', 'Schedules'], ['bridges', 'Bridges']]} />
    ${isBridges ? html`<${Bridges} query=${query} />` : html`<${ScheduleList} query=${query} />`}`;
}

/** @param {any} timing @param {string} text */
const whenOf = ({ at }, text) => (at ? `once, ${time(at)}` : visible(text));

/** @param {any} row */
const stateOf = ({ state }) => html`<${Mark} tone=${state === 'active' ? 'ok' : state === 'done' ? 'info' : 'bad'}>${words(state)}<//>`;

/** @param {any} row */
const resultOf = ({ last }) => (last ? html`<${Mark} tone=${last.result === 'published' ? 'ok' : last.result === 'refused' ? 'bad' : 'warn'}>${words(last.result)}<//> <${Time} at=${last.due} />` : html`<span class="muted">not yet</span>`);

const SCHEDULES = [
  { name: 'Schedule', card: /** @type {1} */ (1), show: (row) => html`<span class="mono">${visible(row.name)}</span>` },
  { name: 'State', show: stateOf },
  { name: 'Topic', card: /** @type {2} */ (2), show: (row) => html`<span class="mono">${visible(row.topic)}</span>` },
  { name: 'When', show: (row) => whenOf(row.timing, row.timing_text) },
  { name: 'Next', card: /** @type {3} */ (3), show: (row) => html`<${Time} at=${row.next_firings[0]} />` },
  { name: 'Last', title: 'when the last one was due, and what became of it', show: resultOf },
  { name: 'If missed', title: 'what becomes of firings that no broker could make in time', show: (row) => (row.missed === 'skip' ? 'skipped' : words(row.missed)) },
];

/** @param {{query: Record<string, string>}} props */
function ScheduleList({ query }) {
  const list = useList('schedules', { prefix: query.prefix }, { every: 3_000 });
  return html`<div class="filters"><${Filter} label="Name prefix" value=${query.prefix ?? ''} onChange=${(prefix) => refine({ prefix })} /></div>
    <${ProblemNote} problem=${list.problem} onRetry=${list.reload} /><${Partial} incomplete=${list.incomplete} />
    ${!(list.problem && !list.items.length) && html`<${Table} label="Schedules" fill columns=${SCHEDULES} rows=${list.items} id=${(row) => row.name} chosen=${query.name ?? ''} hasMore=${Boolean(list.next)} onMore=${list.more}
      onChoose=${(row) => refine({ name: row.name })}
      empty=${list.isLoading ? html`<${Loading} />` : query.prefix ? html`<${Empty} title="No schedule has a name like this" />` : html`<${Empty} title="Nothing is scheduled" command=${CREATE}>A schedule publishes at a time, every so often, or by a cron expression.<//>`} />`}
    ${query.name && html`<${ScheduleDetail} key=${query.name} name=${query.name} onChange=${list.reload} />`}`;
}

/** @param {{name: string, onChange: () => void}} props */
function ScheduleDetail({ name, onChange }) {
  const { data, problem, reload } = useResource('schedules', { name }, { every: 3_000 });
  const row = data?.items[0];
  const cancelled = () => {
    refine({ name: '' });
    onChange();
  };
  return html`<section class="detail" aria-label=${`Schedule ${visible(name)}`}><header><h2 class="mono grow">${visible(name)}</h2>
      ${row && html`<a class="button" href=${address('topics', { topic: row.topic })}>Topic</a><button type="button" class="danger" onClick=${() => cancel(name, cancelled)}>Cancel the schedule</button>`}
      <${Close} onClick=${() => refine({ name: '' })} /></header>
    <div class="scroll"><${ProblemNote} problem=${problem} onRetry=${reload} />
    ${row ? html`<${ScheduleFacts} row=${row} />` : data && html`<${Empty} title="There is no such schedule">It was cancelled, or belongs to somebody else.<//>`}</div></section>`;
}

/** @param {{row: any}} props */
function ScheduleFacts({ row }) {
  const { last } = row;
  return html`<dl class="facts"><dt>State</dt><dd>${stateOf(row)}${row.state === 'ownerless' ? ' Its owner was deleted: nobody\u2019s rights are left to publish by. Create it again.' : ''}</dd>
    <dt>Topic</dt><dd class="mono">${visible(row.topic)}</dd>
    <dt>When</dt><dd>${whenOf(row.timing, row.timing_text)}</dd>
    <dt>Next firings</dt><dd>${row.next_firings.length ? html`<ol class="row" style=${{ gap: '0 16px', flexWrap: 'wrap' }}>${row.next_firings.map((at) => html`<li key=${at}><${Time} at=${at} /></li>`)}</ol>` : 'none'}</dd>
    <dt>Last firing</dt><dd>${resultOf(row)}${last && html` <${Reason} code=${last.reason} tone="bad" /> ${visible(last.detail)}`}</dd>
    <dt>If missed</dt><dd>${MISSED[row.missed] ?? words(row.missed)}${row.skipped ? `; ${count(row.skipped)} had no message` : ''}</dd>
    <dt>So far</dt><dd>${plural(row.published, 'message')} published, ${plural(row.refused, 'firing')} refused</dd>
    <dt>Message</dt><dd>QoS ${row.qos}${row.retain ? ', retained' : ''}, ${bytes(row.payload_bytes)}${row.payload ? html` <span class="mono">${oneLine(row)}</span>` : ' (you may not read this topic)'}</dd>
    <dt>Owner</dt><dd>${visible(row.owner || 'nobody by name')}; created <${Time} at=${row.created} /></dd></dl>`;
}

/** The broker says first whether it may be done. @param {string} name @param {() => void} done */
const cancel = (name, done) => confirm({ title: `Cancel the schedule ${visible(name)}`, verb: `Cancel ${visible(name)}`, danger: true,
  preview: async () => {
    await call('DELETE', 'schedules', { query: { name, dry_run: true } });
    return { text: 'It publishes nothing more, and is not listed any more. What it has published stays.' };
  },
  run: async () => {
    await call('DELETE', 'schedules', { query: { name }, key: newKey() });
    toast(`Cancelled ${name}`);
    done();
  } });

// ── bridges ───────────────────────────────────────────────────────────────────────────────────

const TONES = /** @type {Record<string, 'ok' | 'warn' | 'info'>} */ ({ connected: 'ok', waiting: 'warn' });

/** @param {any} row */
const droppedBy = ({ incoming, outgoing }) => [incoming, outgoing].reduce((sum, { dropped }) => sum + Object.values(dropped).reduce((one, other) => one + other, 0), 0);

const BRIDGES = [
  { name: 'Bridge', card: /** @type {1} */ (1), show: (row) => html`<span class="mono">${visible(row.name)}</span>` },
  { name: 'State', card: /** @type {3} */ (3), show: (row) => html`<${Mark} tone=${TONES[row.state] ?? 'info'}>${words(row.state)}<//>` },
  { name: 'Since', show: (row) => html`<span title=${row.since}>${ago(row.since)}</span>` },
  { name: 'Other broker', card: /** @type {2} */ (2), show: (row) => html`<span class="mono">${visible(row.url)}</span>` },
  { name: 'MQTT', show: (row) => visible(row.mqtt || '–') },
  { name: 'Copied in', number: true, show: (row) => count(row.incoming.copied) },
  { name: 'Copied out', number: true, show: (row) => count(row.outgoing.copied) },
  { name: 'Dropped', number: true, show: (row) => html`<span class=${droppedBy(row) ? 'bad' : ''}>${count(droppedBy(row))}</span>` },
  { name: 'In flight', number: true, show: (row) => count(row.incoming.in_flight + row.outgoing.in_flight) },
];

/** @param {{query: Record<string, string>}} props */
function Bridges({ query }) {
  const { data, problem, isLoading, reload } = useResource('bridges', {}, { every: 3_000 });
  const rows = data?.items ?? [];
  const chosen = rows.find((row) => row.name === query.name);
  return html`<${ProblemNote} problem=${problem} onRetry=${reload} /><${Partial} incomplete=${data?.incomplete} />
    ${rows.some((row) => row.state === 'standby') && html`<${Note}>The bridges of the leader copy; those of this node stand by.<//>`}
    ${rows.filter((row) => row.error).slice(0, 5).map((row) => html`<${Note} key=${row.name} tone="warn"><${Trouble} row=${row} /><//>`)}
    ${!(problem && !data) && html`<${Table} label="Bridges" fill columns=${BRIDGES} rows=${rows} id=${(row) => row.name} chosen=${query.name ?? ''} onChoose=${(row) => refine({ name: row.name })}
      empty=${isLoading && !data ? html`<${Loading} />` : html`<${Empty} title="No bridge is configured">A table <code>[[bridges]]</code> in the configuration file copies topics from and to another MQTT broker: see “Bridges” in the documentation, docs/operating/bridges.md.<//>`} />`}
    ${chosen && html`<section class="detail" aria-label=${`Bridge ${visible(chosen.name)}`}><header><h2 class="mono grow">${visible(chosen.name)}</h2><${Close} onClick=${() => refine({ name: '' })} /></header>
      <div class="scroll"><dl class="facts"><dt>State</dt><dd>${words(chosen.state)} since <${Time} at=${chosen.since} /></dd><dt>Other broker</dt><dd class="mono">${visible(chosen.url)}</dd><dt>MQTT</dt><dd>${visible(chosen.mqtt || 'not known yet')}</dd>
        <${Direction} name="In" way=${chosen.incoming} /><${Direction} name="Out" way=${chosen.outgoing} /></dl></div></section>`}`;
}

/** Why it does not copy, and what to do. @param {{row: any}} props */
const Trouble = ({ row }) => html`<strong class="mono">${visible(row.name)}</strong>: ${visible(row.error)}. <span class="muted"><${Advice} text=${row.advice} />${row.retry_at ? ` It tries again at ${time(row.retry_at)}.` : ''}</span>`;

/** @param {{name: string, way: any}} props */
function Direction({ name, way }) {
  const drops = Object.entries(way.dropped);
  return html`<dt>${name}</dt><dd>${way.filters.length ? html`<span class="mono">${way.filters.map(visible).join(', ')}</span>: ${count(way.copied)} copied, ${count(way.in_flight)} in flight` : 'nothing'}</dd>
    ${drops.length > 0 && html`<dt>${name}, dropped</dt><dd>${drops.map(([code, number]) => html`<span class="nowrap" key=${code}><${Reason} code=${code} tone="bad" /> ${count(number)} </span>`)}</dd>`}`;
}
