/** Live tail: the newest messages under a filter, as they come; what was too fast to show is counted. */
import { html, useMemo, useRef, useState, useStore } from '../ui.js';
import { bytes, count, rate, visible } from '../format.js';
import { live, setPaused, useStream } from '../live.js';
import { address, go, refine } from '../router.js';
import { textOf } from '../decode.js';
import { Filter } from '../parts/fields.js';
import { oneLine } from '../parts/payload.js';
import { Empty, ProblemNote, Time } from '../parts/states.js';
import { Table } from '../parts/table.js';

const KEPT = 5_000;

const COLUMNS = [
  { name: 'Time', card: /** @type {3} */ (3), show: (row) => html`<${Time} at=${row.time} ms />` },
  { name: 'Topic', card: /** @type {1} */ (1), show: (row) => html`<span class="mono">${visible(row.topic)}</span>` },
  { name: 'Offset', number: true, show: (row) => row.offset },
  { name: 'QoS', number: true, show: (row) => row.qos },
  { name: 'Size', number: true, show: (row) => bytes(row.payload_bytes) },
  { name: 'Payload', wide: true, card: /** @type {2} */ (2), show: (row) => html`<span class="mono value">${oneLine(row)}</span>` },
];

/** A line of a recording, as `penstock pub --replay` reads it. @param {any} row @param {number} start */
export const recorded = (row, start) => JSON.stringify({ t: Date.parse(row.time) - start, topic: row.topic, payload: row.payload, qos: row.qos, retain: row.retain, headers: row.headers });

/** @param {{query: Record<string, string>}} props */
export function LiveTail({ query }) {
  const filter = query.filter ?? '#';
  const find = (query.find ?? '').toLowerCase();
  const { paused, state } = useStore(live);
  const [tail, set] = useState({ rows: /** @type {any[]} */ ([]), skipped: 0, seen: 0, since: Date.now() });
  const recent = useRef(/** @type {{at: number, count: number}[]} */ ([]));
  const [refused, setRefused] = useState(/** @type {any} */ (null));
  useStream('tail', (event, data) => {
    if (event === 'problem' || event === 'refused') setRefused({ status: 403, message: data.detail ?? data.text, advice: data.advice });
    if (event !== 'tail') return;
    recent.current = [...recent.current.filter((one) => one.at > Date.now() - 5_000), { at: Date.now(), count: data.items.length + data.skipped }];
    set((old) => ({ rows: [...[...data.items].reverse(), ...old.rows].slice(0, KEPT), skipped: old.skipped + data.skipped, seen: old.seen + data.items.length + data.skipped, since: old.since }));
  }, { query: { filter } });
  const shown = useMemo(() => (find ? tail.rows.filter((row) => row.topic.toLowerCase().includes(find) || textOf(row.payload).toLowerCase().includes(find)) : tail.rows), [tail.rows, find]);
  const perSecond = recent.current.reduce((sum, one) => sum + one.count, 0) / 5;
  const save = () => {
    const rows = [...tail.rows].reverse();
    const start = rows.length ? Date.parse(rows[0].time) : 0;
    const link = document.createElement('a');
    link.href = URL.createObjectURL(new Blob(rows.map((row) => `${recorded(row, start)}\n`), { type: 'application/jsonl' }));
    link.download = 'recording.jsonl';
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1_000);
  };
  return html`<div class="page-head"><h1>Live tail</h1><span class="grow"></span><span class="muted value">${rate(perSecond)} · ${count(tail.seen)} seen · ${count(tail.skipped)} skipped</span></div>
    <div class="filters"><${Filter} label="Filter, as in plant/#" value=${query.filter ?? ''} onChange=${(value) => { setRefused(null); set({ rows: [], skipped: 0, seen: 0, since: Date.now() }); refine({ filter: value }); }} />
      <${Filter} label="Find" value=${query.find ?? ''} onChange=${(value) => refine({ find: value })} />
      <button type="button" aria-pressed=${paused} onClick=${() => setPaused(!paused)}>${paused ? 'Resume' : 'Pause'}</button><button type="button" onClick=${() => set({ ...tail, rows: [] })} disabled=${!tail.rows.length}>Clear</button><button type="button" onClick=${save} disabled=${!tail.rows.length}>Save recording</button></div>
    <${ProblemNote} problem=${refused} />
    <${Table} label="Live messages" fill columns=${COLUMNS} rows=${shown} id=${(row) => `${row.sequence}/${row.topic}/${row.offset}`} onChoose=${(row) => go(address('topics', { topic: row.topic, offset: row.offset, message: row.offset }))}
      empty=${html`<${Empty} title=${paused ? 'Paused' : find && tail.rows.length ? 'No message has this' : state === 'live' ? `Waiting on ${visible(filter)}` : 'Connecting …'}>${state === 'lost' ? 'The stream is lost; the page connects again by itself.' : 'Messages appear here as they are published; the newest first.'}<//>`} />`;
}
