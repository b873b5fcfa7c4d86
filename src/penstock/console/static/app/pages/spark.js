/** Spark: streams that read topics, with their lag, and sinks that write tables into them. */
import { html } from '../ui.js';
import { call, newKey } from '../api.js';
import { ago, bytes, count, duration, plural, rate, visible } from '../format.js';
import { useList } from '../live.js';
import { address, refine } from '../router.js';
import { toast } from '../state.js';
import { confirm } from '../parts/dialog.js';
import { Tabs } from '../parts/fields.js';
import { Icon } from '../parts/icons.js';
import { Empty, Loading, Partial, ProblemNote } from '../parts/states.js';
import { Table } from '../parts/table.js';

const READING = 'spark.readStream.format("penstock").option("topics", "plant/#").load()';
const WRITING = 'df.writeStream.format("penstock").option("sink", "scores").start()';

/** @param {any} row */
const attention = (row) => (row.attention.length ? html`<span title=${row.attention.map((one) => one.text).join(' ')}><${Icon} name="warn" tone="warn" /><span class="sr">needs attention: ${row.attention.map((one) => visible(one.text)).join(' ')}</span></span>` : '');

const READERS = [
  { name: '', title: 'Attention', tight: true, show: attention },
  { name: 'Reader', card: /** @type {1} */ (1), show: (row) => html`<span class="mono">${visible(row.name)}</span>` },
  { name: 'Topic', card: /** @type {2} */ (2), show: (row) => html`<a class="mono" href=${address('topics', { topic: row.topic })}>${visible(row.topic)}</a>` },
  { name: 'Kind', show: (row) => (row.kind === 'reader_group' ? 'stream' : 'durable subscriber') },
  { name: 'Lag', number: true, card: /** @type {3} */ (3), show: (row) => html`<span class=${row.attention.length ? 'warn' : ''}>${count(row.lag)}</span>` },
  { name: 'Behind by', number: true, title: 'now minus the time of the message at the position', show: (row) => duration(row.lag_s == null ? null : Math.round(row.lag_s)) },
  { name: 'Rows/s', number: true, show: (row) => rate(row.rows_per_s) },
  { name: 'Caught up in', number: true, show: (row) => (row.lag ? duration(row.eta_s) : '–') },
  { name: 'Last commit', number: true, show: (row) => html`<span title=${row.committed ?? ''}>${row.committed ? ago(row.committed) : '–'}</span>` },
  { name: 'Position', number: true, show: (row) => `${count(row.position)} of ${count(row.end_offset)}` },
  { name: 'User', show: (row) => `${visible(row.user || '–')}${row.overtaken ? ' · overtaken by retention' : ''}` },
];

/** @param {{query: Record<string, string>}} props */
export function Spark({ query }) {
  const isSinks = query.tab === 'sinks';
  const list = useList(isSinks ? 'sinks' : 'readers', {}, { every: 3_000 });
  const sinks = [
    { name: '', title: 'Attention', tight: true, show: attention },
    { name: 'Sink', card: /** @type {1} */ (1), show: (row) => html`<span class="mono">${visible(row.sink)}</span>` },
    { name: 'Epoch', number: true, card: /** @type {3} */ (3), show: (row) => (row.epoch == null ? '–' : row.epoch) },
    { name: 'Rows', number: true, card: /** @type {2} */ (2), show: (row) => count(row.rows) },
    { name: 'Last epoch', number: true, show: (row) => count(row.epoch_rows) },
    { name: 'Committed', number: true, show: (row) => html`<span title=${row.committed ?? ''}>${row.committed ? ago(row.committed) : '–'}</span>` },
    { name: 'Committing', show: (row) => (row.committing_epoch == null ? '–' : `epoch ${row.committing_epoch}, ${count(row.committing_rows)} rows`) },
    { name: 'Staged', show: (row) => (row.staged_parts ? `${plural(row.staged_parts, 'part')}, ${bytes(row.staged_bytes)}` : '–') },
    { name: 'User', show: (row) => visible(row.user || '–') },
    { name: 'Note', wide: true, show: (row) => visible(row.note || '–') },
    { name: '', title: 'Actions', show: (row) => html`<button type="button" class="link" onClick=${() => forget(row.sink, list.reload)}>Forget</button>` },
  ];
  return html`<div class="page-head"><h1>Spark</h1></div>
    <${Tabs} label="Readers or sinks" value=${isSinks ? 'sinks' : 'readers'} onChange=${(tab) => refine({ tab: tab === 'sinks' ? tab : '' })} tabs=${[['readers', 'Readers'], ['sinks', 'Sinks']]} />
    <${ProblemNote} problem=${list.problem} onRetry=${list.reload} /><${Partial} incomplete=${list.incomplete} />
    <${Table} label=${isSinks ? 'Sinks' : 'Readers'} fill columns=${isSinks ? sinks : READERS} rows=${list.items} id=${(row) => `${row.name ?? row.sink}\n${row.topic ?? ''}`} hasMore=${Boolean(list.next)} onMore=${list.more}
      empty=${list.isLoading ? html`<${Loading} />` : isSinks ? html`<${Empty} title="No table is written here yet" command=${WRITING} />` : html`<${Empty} title="No stream reads here yet" command=${READING} />`} />`;
}

/** @param {string} sink @param {() => void} done */
const forget = (sink, done) => confirm({ title: `Forget the sink ${visible(sink)}`, verb: 'Forget', danger: true,
  preview: async () => {
    const found = await call('DELETE', 'sinks', { query: { sink, dry_run: true } });
    return { text: `Its progress (epoch ${found.epoch ?? 'none'}) and ${plural(found.staged_parts, 'staged part')} (${bytes(found.staged_bytes)}) are forgotten; the ${plural(found.rows, 'row')} in the topics stay. A query that goes on would write its last epoch again.`, name: sink, verb: 'Forget' };
  },
  run: async () => {
    await call('DELETE', 'sinks', { query: { sink }, key: newKey() });
    toast(`Forgot ${sink}`);
    done();
  } });
