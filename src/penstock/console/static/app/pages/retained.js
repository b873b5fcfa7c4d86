/** Retained messages: which there are, clearing them by filter, and taking that back. */
import { html } from '../ui.js';
import { call, newKey } from '../api.js';
import { bytes, count, plural, time, visible } from '../format.js';
import { useList } from '../live.js';
import { address, go, refine } from '../router.js';
import { complain, toast } from '../state.js';
import { TYPE_NAME_FROM, confirm } from '../parts/dialog.js';
import { Filter } from '../parts/fields.js';
import { oneLine } from '../parts/payload.js';
import { Empty, Loading, Partial, ProblemNote, Time } from '../parts/states.js';
import { Table } from '../parts/table.js';

const COLUMNS = [
  { name: 'Topic', card: /** @type {1} */ (1), show: (row) => html`<span class="mono">${visible(row.topic)}</span>` },
  { name: 'Since', card: /** @type {3} */ (3), show: (row) => html`<${Time} at=${row.time} />` },
  { name: 'By', show: (row) => visible(row.author ?? '–') },
  { name: 'Size', number: true, show: (row) => bytes(row.payload_bytes) },
  { name: 'Payload', wide: true, card: /** @type {2} */ (2), show: (row) => html`<span class="mono">${oneLine(row)}</span>` },
];

/** @param {{query: Record<string, string>, isOne?: boolean}} props */
export function Retained({ query, isOne = false }) {
  const filter = query.filter ?? (isOne ? '' : '#');
  const list = useList('retained', { filter }, { every: 5_000 });
  const clear = () => confirm({
    title: `Clear retained messages of ${visible(filter)}`, verb: 'Clear', danger: true,
    preview: async () => {
      const found = await call('DELETE', 'retained', { body: { filter, dry_run: true } });
      if (!found.count) return { text: found.kept ? `${plural(found.kept, 'message')} match, but you may not clear them.` : 'No retained message matches.', none: true };
      return { text: `${plural(found.count, 'retained message')} (${bytes(found.bytes)}) would be cleared${found.kept ? `, ${count(found.kept)} stay: you may not clear them` : ''}. ${found.no_undo ? `This cannot be undone: ${found.no_undo}.` : 'It can be undone for an hour.'}`,
        first: found.first, count: found.count, verb: `Clear ${count(found.count)}`, name: found.count > TYPE_NAME_FROM ? filter : '' };
    },
    run: async () => {
      const done = await call('DELETE', 'retained', { body: { filter }, key: newKey() });
      list.reload();
      toast(`Cleared ${plural(done.count, 'retained message')}${done.undo_until ? `; undo until ${time(done.undo_until)}` : ''}`, done.undo ? { action: { label: 'Undo', run: () => undo(done.undo, list.reload) } } : {});
    },
  });
  return html`<div class="filters">
      ${!isOne && html`<${Filter} label="Filter, as in plant/#" value=${query.filter ?? ''} onChange=${(value) => refine({ filter: value })} />`}
      <span class="muted">${list.items.length ? plural(list.items.length, 'retained message') + (list.next ? ' and more' : '') : ''}</span>
      <span class="grow"></span><button type="button" class="danger" onClick=${clear} disabled=${!list.items.length}>Clear ${visible(filter)}</button></div>
    <${ProblemNote} problem=${list.problem} onRetry=${list.reload} /><${Partial} incomplete=${list.incomplete} />
    <${Table} label="Retained messages" fill columns=${COLUMNS} rows=${list.items} id=${(row) => row.topic} hasMore=${Boolean(list.next)} onMore=${list.more}
      onChoose=${(row) => go(address('topics', { topic: row.topic }))}
      empty=${list.isLoading ? html`<${Loading} />` : html`<${Empty} title="Nothing is retained here" command="penstock pub --retain alarm off" />`} />`;
}

/** @param {string} id @param {() => void} reload */
async function undo(id, reload) {
  try {
    const { restored, superseded } = await call('POST', 'retained/undo', { body: { undo: id } });
    toast(`Retained again: ${count(restored)}${superseded ? `; ${count(superseded)} had a newer message` : ''}`);
    reload();
  } catch (problem) {
    complain(problem);
  }
}
