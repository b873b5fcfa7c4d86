/** The messages of a topic: by offset, by time, by text; one of them, decoded; two of them, compared. */
import { html, useEffect, useMemo, useRef, useState } from '../ui.js';
import { apiAddress, get } from '../api.js';
import { bytes, count, parseMoment, plural, visible } from '../format.js';
import { useKey } from '../keys.js';
import { useList } from '../live.js';
import { address, refine } from '../router.js';
import { toast } from '../state.js';
import { bytesOfRow, hexOf, textOf } from '../decode.js';
import { Check, Filter, Segments } from '../parts/fields.js';
import { Diff, FORMATS, PayloadView, oneLine } from '../parts/payload.js';
import { Close, Copy, Empty, Note, Partial, ProblemNote, Time, copyText } from '../parts/states.js';
import { Table } from '../parts/table.js';

const COLUMNS = [
  { name: 'Offset', number: true, card: /** @type {1} */ (1), show: (row) => row.offset },
  { name: 'Time', card: /** @type {3} */ (3), show: (row) => html`<${Time} at=${row.time} ms />` },
  { name: 'QoS', show: (row) => html`${row.qos}${row.retain ? html` <span class="tag" title="retained">R</span>` : ''}` },
  { name: 'Size', number: true, show: (row) => bytes(row.payload_bytes) },
  { name: 'Payload', wide: true, card: /** @type {2} */ (2), show: (row) => html`<span class="mono value">${oneLine(row)}</span>` },
];

const WHOLE_BYTES = 65_536; // of a payload that somebody opened; the rest is downloaded

/** @param {{topic: string, query: Record<string, string>, detail: any, onPublish: (start: any) => void}} props */
export function Messages({ topic, query, detail, onPublish }) {
  const [marked, setMarked] = useState(/** @type {any[]} */ ([]));
  const [isDiff, setDiff] = useState(false);
  const moment = useMemo(() => (query.at ? parseMoment(query.at) : null), [query.at]);
  const asked = { topic, offset: query.offset, at: moment, find: query.find, order: query.offset || moment ? 'oldest' : 'newest' };
  const isLive = query.live === '1' && !query.offset && !query.at;
  const list = useList(detail?.exists ? 'messages' : null, asked, { limit: 200, every: isLive ? 1_000 : 0 });
  const chosen = list.items.find((row) => String(row.offset) === query.message) ?? null;
  const mark = (row) => setMarked((old) => (old.some((one) => one.offset === row.offset) ? old.filter((one) => one.offset !== row.offset) : [...old, row].slice(-2)));
  const focused = () => {
    const offset = document.activeElement?.closest('[data-row]')?.getAttribute('data-row');
    return list.items.find((row) => String(row.offset) === offset) ?? chosen;
  };
  useKey('x', () => { const row = focused(); if (row) mark(row); });
  useKey('d', () => setDiff(!isDiff));
  useKey('y', () => { const row = focused(); if (row) copyText(textOf(row.payload)).then(() => toast('Payload copied')); });
  const columns = [{ name: '', title: 'Marked', tight: true, show: (row) => html`<input type="checkbox" aria-label=${`Mark ${row.offset}`} checked=${marked.some((one) => one.offset === row.offset)} onChange=${() => mark(row)} />` }, ...COLUMNS];
  const pair = pairOf(marked, chosen, list.items);
  return html`<div class="filters">
      <${Filter} label="At: 14:03, -15m, date" value=${query.at ?? ''} onChange=${(at) => refine({ at, offset: '', message: '', live: '' })} aria-invalid=${query.at && !moment ? 'true' : undefined} />
      <${Filter} label="From offset" value=${query.offset ?? ''} onChange=${(offset) => refine({ offset: offset.replace(/\D/g, ''), at: '', live: '' })} inputmode="numeric" />
      <${Filter} label="Find in payload" value=${query.find ?? ''} onChange=${(find) => refine({ find, message: '' })} />
      <${Check} label="Live" checked=${isLive} onChange=${(on) => refine({ live: on ? '1' : '', at: '', offset: '' })} />
      ${marked.length > 0 && html`<button type="button" onClick=${() => setDiff(!isDiff)}>${isDiff ? 'Hide diff' : `Diff (${marked.length} marked)`}</button>`}
      <a class="button" href=${apiAddress('messages', { ...asked, limit: 1000 })} download=${`${topic.replaceAll('/', '_')}.json`} target="_blank">Export</a>
    </div>
    <${ProblemNote} problem=${list.problem} onRetry=${list.reload} /><${Partial} incomplete=${list.incomplete} />
    ${list.head?.stopped && html`<${Note}>Looked at ${count(list.head.scanned)} messages${list.head.stopped === 'time' ? ', as long as one request may take' : ''}. <button type="button" class="link" onClick=${list.more}>Go on searching</button><//>`}
    <${Table} label=${`Messages of ${visible(topic)}`} fill columns=${columns} rows=${list.items} id=${(row) => String(row.offset)} chosen=${query.message}
      onChoose=${(row) => refine({ message: row.offset })} hasMore=${Boolean(list.next) && !list.head?.stopped} onMore=${list.more}
      empty=${list.isLoading || !detail ? html`<${Empty} title="Loading …" />` : html`<${Nothing} topic=${topic} query=${query} detail=${detail} />`} />
    ${isDiff && pair && html`<div class="detail"><header><h2 class="grow">Diff ${pair[0].offset} → ${pair[1].offset}</h2><${Close} onClick=${() => setDiff(false)} /></header><div class="scroll"><${Diff} was=${pair[0]} is=${pair[1]} /></div></div>`}
    ${!isDiff && chosen && html`<${Message} key=${chosen.offset} row=${chosen} before=${list.items.find((row) => row.offset === chosen.offset - 1)} onDiff=${(other) => { setMarked([other, chosen]); setDiff(true); }} onPublish=${onPublish} />`}`;
}

/** The two messages to compare: those marked, or the chosen one and the one before. Pure. @param {any[]} marked @param {any} chosen @param {any[]} items */
export function pairOf(marked, chosen, items) {
  const found = marked.length === 2 ? marked : marked.length === 1 && chosen && chosen.offset !== marked[0].offset ? [marked[0], chosen] : null;
  const one = marked[0] ?? chosen;
  const pair = found ?? (one ? [items.find((row) => row.offset === one.offset - 1), one] : null);
  return pair && pair[0] ? [...pair].sort((a, b) => a.offset - b.offset) : null;
}

/** Why there is nothing. @param {any} props */
function Nothing({ topic, query, detail }) {
  if (query.find || query.at || query.offset) return html`<${Empty} title="No message matches">Nothing found${query.find ? ` with “${visible(query.find)}”` : ''}. <button type="button" class="link" onClick=${() => refine({ find: '', at: '', offset: '' })}>Show all</button><//>`;
  if (detail && !detail.capture.captured) return html`<${Empty} title="Not journaled">${visible(detail.capture.text)}<//>`;
  return html`<${Empty} title="Never published" command=${`penstock pub ${topic} hello`} />`;
}

/** @param {{row: any, before: any, onDiff: (other: any) => void, onPublish: (start: any) => void}} props */
function Message({ row, before, onDiff, onPublish }) {
  const [format, setFormat] = useState('auto');
  const [decoded, setDecoded] = useState(/** @type {any} */ (null));
  const latest = useRef(row);
  latest.current = row;
  useEffect(() => {
    if (format === 'auto' && !row.cut) {
      setDecoded(null);
      return;
    }
    get('messages', { topic: row.topic, offset: row.offset, order: 'oldest', limit: 1, decode: format, payload_max: WHOLE_BYTES }).then((page) => setDecoded(page.items[0] ?? null), () => setDecoded(null));
  }, [format, row.offset]);
  const fact = (name, value) => value && html`<dt>${name}</dt><dd>${value}</dd>`;
  return html`<div class="detail"><header><h2 class="grow">Offset ${row.offset}</h2>
      <${Segments} label="Decode as" value=${format} onChange=${setFormat} options=${FORMATS} />
      ${before && html`<button type="button" onClick=${() => onDiff(before)}>Diff</button>`}
      <a class="button" href=${address('why', { q: `${row.topic}@${row.offset}` })}>Why</a>
      <${Copy} text=${textOf(row.payload)} label="Copy" />
      <button type="button" onClick=${() => onPublish({ topic: row.topic, text: textOf(row.payload), qos: String(row.qos), ...(row.format === 'hex' || row.payload.base64 != null ? { kind: 'hex', text: hexOf(bytesOfRow(row)) } : {}) })}>Re-publish</button>
      <${Close} onClick=${() => refine({ message: '' })} /></header>
    <div class="scroll"><${PayloadView} row=${decoded ?? row} format=${decoded ? decoded.format : format} />
      <dl class="facts">${fact('Time', html`<${Time} at=${row.time} ms />`)}${fact('Sequence', count(row.sequence))}${fact('Priority', row.priority || '')}${fact('Content type', visible(row.content_type ?? ''))}
        ${fact('Due', row.due && html`<${Time} at=${row.due} />`)}${fact('Expires', row.expires && html`<${Time} at=${row.expires} />`)}
        ${fact('Signed', row.signer && html`key ${row.signer.key} (version ${row.signer.version})${row.signer.device ? `, ${visible(row.signer.device)}` : ''}`)}
        ${fact(plural(row.headers.length, 'header'), row.headers.length > 0 && row.headers.map((header) => html`<div class="mono">${visible(header.name)}: ${visible(header.value)}${header.is_base64 ? ' (base64)' : ''}</div>`))}</dl></div></div>`;
}
