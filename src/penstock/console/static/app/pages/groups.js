/** Groups and queues: which group lags, who holds what, what is dead-lettered, and sending that back. */
import { html, useState } from '../ui.js';
import { call, newKey } from '../api.js';
import { bytes, count, duration, plural, rate, visible } from '../format.js';
import { useList, useResource } from '../live.js';
import { address, refine } from '../router.js';
import { toast } from '../state.js';
import { TYPE_NAME_FROM, confirm } from '../parts/dialog.js';
import { Field, Filter, Tabs } from '../parts/fields.js';
import { Icon } from '../parts/icons.js';
import { PayloadView, oneLine } from '../parts/payload.js';
import { Close, Empty, Loading, Note, Partial, ProblemNote, Time } from '../parts/states.js';
import { Table } from '../parts/table.js';

/** @param {any} row */
const marked = (row) => (row.attention.length ? html`<${Icon} name="warn" tone="warn" /><span class="sr">needs attention: ${row.attention.map((one) => one.text).join(' ')}</span>` : '');

const COLUMNS = [
  { name: '', title: 'Attention', tight: true, show: marked },
  { name: 'Topic', card: /** @type {2} */ (2), show: (row) => html`<span class="mono">${visible(row.topic)}</span>` },
  { name: 'Group', card: /** @type {1} */ (1), show: (row) => html`<span class="mono">${visible(row.group)}</span>${row.reader ? html` <span class="tag">reader</span>` : ''}` },
  { name: 'Lag', number: true, card: /** @type {3} */ (3), show: (row) => html`<span class=${`value ${row.attention.length ? 'warn' : ''}`}>${count(row.lag)}</span>` },
  { name: 'In flight', number: true, show: (row) => count(row.in_flight) },
  { name: 'Oldest', number: true, show: (row) => (row.oldest_s == null ? '–' : duration(Math.round(row.oldest_s))) },
  { name: 'Repeated', number: true, title: 'redeliveries since the group was made', show: (row) => count(row.redeliveries) },
  { name: 'Dead', number: true, show: (row) => html`<span class=${row.dead_letters ? 'bad' : ''}>${count(row.dead_letters)}</span>` },
  { name: 'Workers', number: true, show: (row) => count(row.workers) },
  { name: 'Rate', number: true, show: (row) => rate(row.rate_per_s) },
  { name: 'Done in', number: true, show: (row) => (row.lag ? duration(row.eta_s) : '–') },
];

/** @param {any} row */
const idOf = (row) => `${row.topic}\n${row.group}`;

/** @param {{query: Record<string, string>}} props */
export function Groups({ query }) {
  const isQueues = query.view === 'queues';
  const list = useList('groups', {}, { every: 2_000, limit: 500 });
  const find = query.prefix ?? '';
  const shown = find ? list.items.filter((row) => row.topic.startsWith(find) || row.group.startsWith(find)) : list.items;
  const chosen = list.items.find((row) => row.topic === query.topic && row.group === query.group);
  return html`<div class="page-head"><h1>Groups</h1><span class="grow"></span></div>
    <${Tabs} label="Groups or queues" value=${isQueues ? 'queues' : 'groups'} onChange=${(view) => refine({ view: view === 'queues' ? view : '', topic: '', group: '' })} tabs=${[['groups', 'Groups'], ['queues', 'Queues']]} />
    <div class="filters"><${Filter} label=${isQueues ? 'Topic prefix' : 'Topic or group'} value=${query.prefix ?? ''} onChange=${(prefix) => refine({ prefix })} /></div>
    ${isQueues ? html`<${Queues} query=${query} />` : html`<${ProblemNote} problem=${list.problem} onRetry=${list.reload} /><${Partial} incomplete=${list.incomplete} />
      <${Table} label="Groups" fill columns=${COLUMNS} rows=${shown} id=${idOf} chosen=${chosen ? idOf(chosen) : ''} hasMore=${Boolean(list.next)} onMore=${list.more}
        onChoose=${(row) => refine({ topic: row.topic, group: row.group, letter: '' })}
        empty=${list.isLoading ? html`<${Loading} />` : find ? html`<${Empty} title="No group like this" />` : html`<${Empty} title="No groups yet" command="penstock queue take mail/out send">A group is made when a worker asks for its first job.<//>`} />
      ${query.topic && query.group && html`<${Detail} key=${`${query.topic}\n${query.group}`} topic=${query.topic} group=${query.group} row=${chosen} query=${query} onChange=${list.reload} />`}`}`;
}

/** @param {any} props */
function Detail({ topic, group, row, query, onChange }) {
  const tab = query.tab ?? (row?.dead_letters && !row.in_flight ? 'dead' : 'flight');
  const name = `${visible(group)} of ${visible(topic)}`;
  const seek = html`<${Seek} topic=${topic} group=${group} onChange=${onChange} />`;
  return html`<section class="detail" aria-label=${`Group ${name}`}><header><h2 class="grow"><span class="mono">${visible(group)}</span> <span class="muted">of</span> <a class="mono" href=${address('topics', { topic })}>${visible(topic)}</a></h2>
      ${seek}<button type="button" class="danger" onClick=${() => remove(topic, group, onChange)}>Delete</button>
      <${Close} onClick=${() => refine({ topic: '', group: '', tab: '', letter: '' })} /></header>
    ${row?.attention.map((one) => html`<${Note} tone="warn">${visible(one.text)}<//>`)}
    <${Tabs} label="Group" value=${tab} onChange=${(value) => refine({ tab: value, letter: '' })} tabs=${[['flight', 'In flight'], ['waiting', 'Waiting'], ['dead', `Dead letters${row?.dead_letters ? ` (${count(row.dead_letters)})` : ''}`], ['settings', 'Settings']]} />
    <div class="scroll">${tab === 'flight' && html`<${InFlight} topic=${topic} group=${group} />`}${tab === 'waiting' && html`<${Waiting} topic=${topic} group=${group} />`}
      ${tab === 'dead' && html`<${DeadLetters} topic=${topic} group=${group} query=${query} onChange=${onChange} />`}${tab === 'settings' && row && html`<${GroupSettings} key=${idOf(row)} row=${row} onChange=${onChange} />`}</div></section>`;
}

/** @param {any} props */
function Seek({ topic, group, onChange }) {
  const [to, setTo] = useState('');
  const target = /^\d+$/.test(to) ? Number(to) : to;
  const ask = () => confirm({
    title: `Move ${visible(group)} of ${visible(topic)} to ${to}`, verb: 'Move', danger: true,
    preview: async () => {
      const found = await call('PATCH', 'groups', { body: { topic, group, seek: target, dry_run: true } });
      return { text: `From offset ${found.position} to ${found.seek_to ?? '–'}: ${plural(found.skipped, 'message')} skipped, ${count(found.repeated)} repeated${found.in_flight ? `, ${count(found.in_flight)} in flight now` : ''}.`,
        verb: found.skipped ? `Move, skip ${count(found.skipped)}` : `Move, repeat ${count(found.repeated)}`, name: found.skipped + found.repeated > TYPE_NAME_FROM ? group : '' };
    },
    run: async () => {
      await call('PATCH', 'groups', { body: { topic, group, seek: target }, key: newKey() });
      toast(`Moved ${group} to ${to}`);
      setTo('');
      onChange();
    },
  });
  return html`<form class="row" onSubmit=${(event) => { event.preventDefault(); if (to) ask(); }}>
    <input aria-label="Move the group to: earliest, latest, an offset or a time" placeholder="earliest, latest, offset, time" size="26" value=${to} onInput=${(event) => setTo(event.target.value.trim())} list="seeks" />
    <datalist id="seeks"><option value="earliest"></option><option value="latest"></option></datalist><button type="submit" disabled=${!to}>Seek</button></form>`;
}

/** @param {string} topic @param {string} group @param {() => void} onChange */
const remove = (topic, group, onChange) => confirm({
  title: `Delete ${visible(group)} of ${visible(topic)}`, verb: 'Delete', danger: true,
  preview: async () => {
    const found = await call('DELETE', 'groups', { query: { topic, group, dry_run: true } });
    return { text: `Its position is forgotten; ${plural(found.lag, 'message')} not done, ${count(found.in_flight)} in flight. A worker that asks again makes a new group.`, verb: `Delete, with lag ${count(found.lag)}`, name: found.lag > TYPE_NAME_FROM ? group : '' };
  },
  run: async () => {
    await call('DELETE', 'groups', { query: { topic, group } });
    toast(`Deleted ${group} of ${topic}`);
    refine({ topic: '', group: '' });
    onChange();
  },
});

/** @param {any} props */
function InFlight({ topic, group }) {
  const list = useList('groups/pending', { topic, group }, { every: 2_000 });
  const columns = [
    { name: 'Offset', number: true, card: /** @type {1} */ (1), show: (row) => html`<a href=${address('topics', { topic, offset: row.offset, message: row.offset })}>${row.offset}</a>` },
    { name: 'State', card: /** @type {3} */ (3), show: (row) => row.state.replace('_', ' ') },
    { name: 'Holder', card: /** @type {2} */ (2), show: (row) => html`<span class="mono">${visible(row.holder || '–')}</span>${row.address ? html` <span class="muted">${visible(row.address)}</span>` : ''}` },
    { name: 'Held', number: true, show: (row) => duration(row.held_s == null ? null : Math.round(row.held_s)) },
    { name: 'Until', show: (row) => html`<${Time} at=${row.until} />` },
    { name: 'Tries', number: true, show: (row) => row.attempts },
    { name: 'Last reason', wide: true, show: (row) => visible(row.last_reason || '–') },
    { name: '', title: 'Why', show: (row) => html`<a href=${address('why', { q: `${topic}@${row.offset}` })}>Why</a>` },
  ];
  return html`<${ProblemNote} problem=${list.problem} /><${Table} label="In flight" columns=${columns} rows=${list.items} id=${(row) => String(row.offset)} hasMore=${Boolean(list.next)} onMore=${list.more} empty=${list.isLoading ? html`<${Loading} />` : html`<${Empty} title="Nothing is in flight">No worker has a job of this group, and none was returned.<//>`} />`;
}

/** @param {any} props */
function Waiting({ topic, group }) {
  const { data, problem } = useResource('groups/waiting', { topic, group }, { every: 2_000 });
  if (!data) return problem ? html`<${ProblemNote} problem=${problem} />` : html`<${Loading} />`;
  const depths = data.depths.filter((one) => one.waiting || one.returned || one.not_due);
  const most = Math.max(1, ...depths.map((one) => one.waiting + one.returned));
  return html`<div class="grid"><section><h3>By priority</h3>${depths.length ? html`<div class="table"><table><caption class="sr">Waiting by priority</caption><thead><tr><th scope="col">Priority</th><th scope="col"><span class="sr">Share</span></th><th scope="col" class="number">Waiting</th><th scope="col" class="number">Returned</th><th scope="col" class="number">Not due</th></tr></thead>
      <tbody>${depths.map((one) => html`<tr><td>${one.priority}</td><td class="wide"><span class="bar" aria-hidden="true"><i style=${{ width: `${((one.waiting + one.returned) / most) * 100}%` }}></i></span></td><td class="number">${count(one.waiting)}</td><td class="number">${count(one.returned)}</td><td class="number">${count(one.not_due)}</td></tr>`)}</tbody></table></div>` : html`<p class="muted">Nothing waits.</p>`}
      ${!data.complete && html`<p class="muted">The priority of ${count(data.looked_at)} messages was looked at; more wait.</p>`}</section>
    <section><h3>Next</h3>${data.next.length ? html`<div class="table"><table><caption class="sr">Next messages</caption><thead><tr><th scope="col" class="number">Offset</th><th scope="col" class="number">Priority</th><th scope="col" class="number">Tries</th><th scope="col">Payload</th></tr></thead>
      <tbody>${data.next.map((row) => html`<tr><td class="number">${row.offset}</td><td class="number">${row.priority}</td><td class="number">${row.attempts}</td><td class="wide mono">${oneLine(row)}</td></tr>`)}</tbody></table></div>` : html`<p class="muted">–</p>`}</section></div>`;
}

/** @param {any} props */
function DeadLetters({ topic, group, query, onChange }) {
  const list = useList('dlq/letters', { topic, group, reason: query.reason }, { every: 3_000 });
  const summary = useResource('dlq', { limit: 1000 }, { every: 3_000 });
  const [chosen, setChosen] = useState(/** @type {number[]} */ ([]));
  const about = summary.data?.items.find((one) => one.topic === topic && one.group === group);
  const open = list.items.find((row) => String(row.offset) === query.letter);
  const flip = (offset) => setChosen((old) => (old.includes(offset) ? old.filter((one) => one !== offset) : [...old, offset]));
  const done = () => { setChosen([]); list.reload(); summary.reload(); onChange(); };
  const selection = chosen.length ? { topic, group, offsets: chosen } : { topic, group, reason: query.reason || undefined };
  const all = chosen.length || (query.reason ? about?.reasons.find((one) => one.reason === query.reason)?.letters : about?.letters) || list.items.length;
  const columns = [
    { name: '', title: 'Marked', tight: true, show: (row) => html`<input type="checkbox" aria-label=${`Mark letter ${row.offset}`} checked=${chosen.includes(row.offset)} onChange=${() => flip(row.offset)} />` },
    { name: 'Offset', number: true, card: /** @type {1} */ (1), show: (row) => row.topic_offset },
    { name: 'Died', card: /** @type {3} */ (3), show: (row) => html`<${Time} at=${row.time} />` },
    { name: 'Tries', number: true, show: (row) => row.attempts },
    { name: 'Reason', card: /** @type {2} */ (2), show: (row) => visible(row.reason || '–') },
    { name: 'Size', number: true, show: (row) => bytes(row.payload_bytes) },
    { name: 'Payload', wide: true, show: (row) => html`<span class="mono">${oneLine(row)}</span>` },
    { name: '', title: 'Why', show: (row) => html`<a href=${address('why', { q: `${row.topic}@${row.topic_offset}` })}>Why</a>` },
  ];
  return html`<div class="filters">
      ${about?.reasons.map((one) => html`<button type="button" aria-pressed=${query.reason === one.reason} onClick=${() => refine({ reason: query.reason === one.reason ? '' : one.reason })}>${visible(one.reason || 'no reason')} (${count(one.letters)})</button>`)}<span class="grow"></span>
      <button type="button" disabled=${!list.items.length} onClick=${() => redrive({ ...selection, ...(chosen.length ? { offsets: chosen.slice(0, 1) } : { max: 1 }) }, 1, done)}>Re-drive 1 to try</button>
      <button type="button" class="primary" disabled=${!list.items.length} onClick=${() => redrive(selection, all, done)}>Re-drive ${count(all)}</button>
      <button type="button" class="danger" disabled=${!list.items.length} onClick=${() => discard(selection, done)}>Delete ${count(all)}</button></div>
    <${ProblemNote} problem=${list.problem} onRetry=${list.reload} />
    <${Table} label="Dead letters" max=${260} columns=${columns} rows=${list.items} id=${(row) => String(row.offset)} chosen=${query.letter ?? ''} onChoose=${(row) => refine({ letter: query.letter === String(row.offset) ? '' : row.offset })} hasMore=${Boolean(list.next)} onMore=${list.more}
      empty=${list.isLoading ? html`<${Loading} />` : html`<${Empty} title="No dead letters">A job gets here when as many deliveries failed as the group allows, or when its worker gives it up.<//>`} />
    ${open && html`<h3>Letter ${open.offset}</h3><${PayloadView} row=${{ ...open, topic: about?.letters_topic ?? open.topic, format: open.format ?? 'auto' }} format=${open.payload.base64 != null ? 'hex' : 'json'} />${open.headers.map((header) => html`<div class="mono">${visible(header.name)}: ${visible(header.value)}</div>`)}`}`;
}

/** @param {any} letter */
const letterLine = (letter) => `${letter.topic_offset}  ${letter.reason}`;

/** @param {any} selection @param {number} number @param {() => void} done */
function redrive(selection, number, done) {
  confirm({
    title: `Send letters of ${visible(selection.group)} back to ${visible(selection.topic)}`, verb: `Re-drive ${count(number)}`,
    preview: async () => {
      const found = await call('POST', 'dlq/redrive', { body: { ...selection, dry_run: true } });
      return found.matched ? { text: `${plural(found.matched, 'letter')} would be delivered again, each with its attempts counted anew.${found.refused ? ` Some stay: ${found.refused}.` : ''}`, count: found.matched, first: found.first.map(letterLine), verb: `Re-drive ${count(found.matched)}`, name: found.matched > TYPE_NAME_FROM ? selection.group : '' }
        : { text: found.refused || 'No letter matches.', none: true };
    },
    run: async () => {
      const moved = await call('POST', 'dlq/redrive', { body: selection, key: newKey() });
      toast(`Re-drove ${plural(moved.moved, 'letter')}; ${count(moved.left)} left${moved.refused ? `: ${moved.refused}` : ''}`);
      done();
    },
  });
}

/** @param {any} selection @param {() => void} done */
function discard(selection, done) {
  confirm({
    title: `Delete letters of ${visible(selection.group)}`, verb: 'Delete', danger: true,
    preview: async () => {
      const found = await call('POST', 'dlq/delete', { body: { ...selection, dry_run: true } });
      return { text: found.matched ? `${plural(found.matched, 'letter')} would be deleted. This cannot be undone.` : 'No letter matches.', none: !found.matched, count: found.matched, first: found.first.map(letterLine), verb: `Delete ${count(found.matched)}`, name: found.matched > TYPE_NAME_FROM ? selection.group : '' };
    },
    run: async () => {
      const gone = await call('POST', 'dlq/delete', { body: selection, key: newKey() });
      toast(`Deleted ${plural(gone.moved, 'letter')}; ${count(gone.left)} left`);
      done();
    },
  });
}

/** @param {any} props */
function GroupSettings({ row, onChange }) {
  const [form, set] = useState({ max_deliveries: String(row.max_deliveries), backoff_s: String(row.backoff_s), backoff_max_s: String(row.backoff_max_s) });
  const change = (name) => (value) => set({ ...form, [name]: value });
  const body = { topic: row.topic, group: row.group, max_deliveries: Number(form.max_deliveries), backoff_s: Number(form.backoff_s), backoff_max_s: Number(form.backoff_max_s) };
  const save = (event) => {
    event.preventDefault();
    confirm({
      title: `Change ${visible(row.group)} of ${visible(row.topic)}`, verb: 'Change',
      preview: async () => {
        const found = await call('PATCH', 'groups', { body: { ...body, dry_run: true } });
        return { text: `At most ${body.max_deliveries || 'unlimited'} deliveries, ${duration(body.backoff_s)} to ${duration(body.backoff_max_s)} between them.${found.exhausted ? ` ${plural(found.exhausted, 'pending message')} become dead letters at once.` : ''}` };
      },
      run: async () => {
        await call('PATCH', 'groups', { body, key: newKey() });
        toast(`Changed ${row.group}`);
        onChange();
      },
    });
  };
  return html`<form class="form" onSubmit=${save} style=${{ maxWidth: '560px' }}><div class="pair">
      <${Field} label="Deliveries at most; 0: no limit" type="number" min="0" value=${form.max_deliveries} onChange=${change('max_deliveries')} />
      <${Field} label="Back-off in s" type="number" min="0" step="any" value=${form.backoff_s} onChange=${change('backoff_s')} />
      <${Field} label="Back-off at most, in s" type="number" min="0" step="any" value=${form.backoff_max_s} onChange=${change('backoff_max_s')} /></div>
    <div class="row"><button class="primary" type="submit">Change</button><span class="muted">Position ${count(row.position)} of ${count(row.end_offset)}, made at ${count(row.start)}.</span></div></form>`;
}

/** @param {{query: Record<string, string>}} props */
function Queues({ query }) {
  const list = useList('queues', { prefix: query.prefix }, { every: 3_000 });
  const limit = (value, show) => (value ? show(value) : '–');
  const columns = [
    { name: 'Topic', card: /** @type {1} */ (1), wide: true, show: (row) => html`<span class="mono">${visible(row.topic)}</span>` },
    { name: 'Messages', number: true, card: /** @type {3} */ (3), show: (row) => count(row.messages) }, { name: 'Stored', number: true, show: (row) => bytes(row.stored_bytes) },
    { name: 'Groups', number: true, card: /** @type {2} */ (2), show: (row) => count(row.groups) }, { name: 'Lag', number: true, show: (row) => count(row.lag) },
    { name: 'Dead', number: true, show: (row) => html`<span class=${row.dead_letters ? 'bad' : ''}>${count(row.dead_letters)}</span>` },
    { name: 'Rate limit', number: true, show: (row) => limit(row.rate_per_s, rate) }, { name: 'Keeps', show: (row) => (row.keep ? 'all, as a log' : 'until done') },
    { name: 'At most', number: true, show: (row) => [limit(row.max_messages, count), limit(row.max_age_s, duration), limit(row.max_bytes, bytes)].filter((one) => one !== '–').join(', ') || '–' },
  ];
  return html`<${ProblemNote} problem=${list.problem} onRetry=${list.reload} /><${Partial} incomplete=${list.incomplete} /><${Table} label="Queues" fill columns=${columns} rows=${list.items} id=${(row) => row.topic} hasMore=${Boolean(list.next)} onMore=${list.more}
    onChoose=${(row) => refine({ view: '', prefix: row.topic })} empty=${list.isLoading ? html`<${Loading} />` : html`<${Empty} title="No queues yet" command="penstock queue create mail/out">A topic becomes a queue when it is configured, or a group reads it.<//>`} />`;
}
