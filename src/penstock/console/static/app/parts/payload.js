/** A payload: decoded, or as text, or as bytes; with its size if it was cut, and a way to have all of it. */
import { html, useMemo } from '../ui.js';
import { apiAddress } from '../api.js';
import { bytesOfRow, hexDump, hexOf, jsonPieces, prettyJson, textOf } from '../decode.js';
import { bytes, visible, visibleLines } from '../format.js';
import { changesOf } from '../diff.js';

const SHOWN_MAX = 200_000; // characters put into the page

export const FORMATS = /** @type {[string, string][]} */ ([['auto', 'Auto'], ['json', 'JSON'], ['text', 'Text'], ['hex', 'Hex'], ['msgpack', 'MsgPack']]);

/** One line, for lists. @param {any} row */
export function oneLine(row) {
  if (!row?.payload) return '';
  if (row.format === 'hex' || row.payload.base64 != null) {
    const data = bytesOfRow(row).subarray(0, 48);
    return hexOf(data) + (row.payload_bytes > 48 ? ' …' : '');
  }
  const text = textOf(row.payload);
  return visible(text.length > 300 ? `${text.slice(0, 300)}…` : text) + (row.cut && text.length <= 300 ? '…' : '');
}

/** @param {{row: any, format: string}} props */
export function PayloadView({ row, format }) {
  const kind = format === 'auto' ? row.format : format;
  const text = useMemo(() => textOf(row.payload).slice(0, SHOWN_MAX), [row]);
  return html`<div>
    ${row.fault && html`<p class="warn">${visible(row.fault)}</p>`}
    <pre class="payload" tabIndex="0" aria-label="Payload">${kind === 'hex' ? hexDump(bytesOfRow(row)) : kind === 'text' ? visibleLines(text) : html`<${Json} text=${text} />`}</pre>
    <p class="muted">${bytes(row.payload_bytes)}${row.cut && html`, of which the beginning is shown. <a href=${apiAddress('messages/payload', { topic: row.topic, offset: row.offset })} download=${`${row.topic}@${row.offset}`.replaceAll('/', '_')} target="_blank">Download all of it</a>`}</p>
  </div>`;
}

/** @param {{text: string}} props */
function Json({ text }) {
  const pieces = useMemo(() => jsonPieces(prettyJson(text)), [text]);
  return pieces.map((piece) => (piece.kind ? html`<span class=${piece.kind}>${visible(piece.text)}</span>` : visibleLines(piece.text)));
}

/** @param {{was: any, is: any}} props rows of messages */
export function Diff({ was, is }) {
  const { kind, changes } = useMemo(() => changesOf(textOf(was.payload), textOf(is.payload)), [was, is]);
  if (!changes.length) return html`<p class="muted">No difference between ${was.offset} and ${is.offset}.</p>`;
  const mark = (value) => (value === null ? html`<span class="muted">absent</span>` : visible(value));
  return html`<div class="table"><table class="diff"><caption class="sr">What changed from ${was.offset} to ${is.offset}</caption>
    <thead><tr><th scope="col">${kind === 'fields' ? 'Field' : 'Line'}</th><th scope="col">${was.offset}</th><th scope="col">${is.offset}</th></tr></thead>
    <tbody>${changes.slice(0, 200).map((change) => html`<tr><td>${visible(change.path)}</td><td class="was">${mark(change.was)}</td><td class="is">${mark(change.is)}</td></tr>`)}</tbody></table></div>`;
}
