/**
 * Tables of any length: only the rows in view are in the document. Real tables, for those who hear them; on a
 * phone a list of cards with three fields. Rows have one height, so that the place of each is known.
 */
import { classes, html, useEffect, useNarrow, useRef, useState } from '../ui.js';
import { plural } from '../format.js';

const ROW = 28;
const CARD = 57;
const AROUND = 8;

/** Which rows to draw. Pure. @param {number} top @param {number} height @param {number} count @param {number} row */
export function windowOf(top, height, count, row) {
  const first = Math.max(0, Math.min(count, Math.floor(top / row)) - AROUND);
  return { first, last: Math.min(count, Math.ceil((top + height) / row) + AROUND) };
}

/**
 * The part of a scrolled element that is in view.
 * @param {{current: HTMLElement | null}} ref @param {number} count @param {number} row
 */
export function useWindow(ref, count, row) {
  const [box, set] = useState({ top: 0, height: 800 });
  useEffect(() => {
    const element = /** @type {HTMLElement} */ (ref.current);
    let frame = 0;
    const measure = () => {
      frame = 0;
      set((old) => (old.top === element.scrollTop && old.height === element.clientHeight ? old : { top: element.scrollTop, height: element.clientHeight || 800 }));
    };
    const soon = () => { frame ||= requestAnimationFrame(measure); };
    const watcher = new ResizeObserver(soon);
    watcher.observe(element);
    element.addEventListener('scroll', soon, { passive: true });
    measure();
    return () => {
      cancelAnimationFrame(frame);
      watcher.disconnect();
      element.removeEventListener('scroll', soon);
    };
  }, []);
  return windowOf(box.top, box.height, count, row);
}

/**
 * @typedef {object} Column
 * @property {string} name of the heading
 * @property {(row: any) => any} show
 * @property {boolean} [number] aligned to the right
 * @property {boolean} [wide] takes the room that is left
 * @property {boolean} [tight]
 * @property {boolean} [wrap] over several lines; for tables of a few rows only
 * @property {string} [title] what the heading means
 * @property {1 | 2 | 3} [card] its place on a card
 */

/**
 * @param {object} props
 * @param {string} props.label
 * @param {Column[]} props.columns
 * @param {any[]} props.rows
 * @param {(row: any) => string} props.id
 * @param {string} [props.chosen] id of the row that is chosen
 * @param {(row: any) => void} [props.onChoose]
 * @param {() => void} [props.onMore] there are more rows
 * @param {boolean} [props.hasMore]
 * @param {boolean} [props.fill] takes the height that is left
 * @param {any} [props.foot]
 * @param {any} [props.empty] shown instead of rows
 * @param {number} [props.max] height in pixels
 */
export function Table({ label, columns, rows, id, chosen, onChoose, onMore, hasMore = false, fill = false, foot, empty, max }) {
  const ref = useRef(/** @type {HTMLElement | null} */ (null));
  const narrow = useNarrow();
  const height = narrow ? CARD : ROW;
  const { first, last } = useWindow(ref, rows.length, height);
  useEffect(() => { if (hasMore && onMore && last >= rows.length - 10 && rows.length) onMore(); }, [last, hasMore, rows.length]);
  const parts = { columns, rows: rows.slice(first, last), first, id, chosen, onChoose, before: first * height, after: (rows.length - last) * height };
  return html`<div class=${classes('table', fill && 'fill')} ref=${ref} tabIndex="0" role="region" aria-label=${label} style=${max ? { maxHeight: `${max}px` } : {}}>
    ${!rows.length && empty ? empty : narrow ? html`<${Cards} ...${parts} />` : html`<${Rows} label=${label} total=${rows.length} hasMore=${hasMore} ...${parts} />`}
    ${(foot || hasMore) && html`<div class="table-foot">${hasMore && onMore && html`<span>${plural(rows.length, 'row')} so far</span><button type="button" onClick=${onMore}>Load more</button>`}${foot}</div>`}
  </div>`;
}

/** @param {any} props */
function Rows({ label, columns, rows, first, id, chosen, onChoose, before, after, total, hasMore }) {
  const cell = (column) => classes(column.number && 'number', column.wide && 'wide', column.tight && 'tight', column.wrap && 'wrap');
  const onKey = (event, row) => {
    if (event.key !== 'Enter' || event.target !== event.currentTarget) return;
    event.preventDefault();
    onChoose(row);
  };
  return html`<table aria-rowcount=${hasMore ? -1 : total + 1}><caption class="sr">${label}</caption>
    <thead><tr aria-rowindex="1">${columns.map((column) => html`<th scope="col" class=${cell(column)} title=${column.title}>${column.name || html`<span class="sr">${column.title}</span>`}</th>`)}</tr></thead>
    <tbody>
      ${before > 0 && html`<tr aria-hidden="true"><td class="pad" colspan=${columns.length} style=${{ height: `${before}px` }}></td></tr>`}
      ${rows.map((row, index) => html`<tr key=${id(row)} aria-rowindex=${first + index + 2}
          data-row=${onChoose ? id(row) : undefined} tabIndex=${onChoose ? 0 : undefined} aria-selected=${onChoose && chosen !== undefined ? chosen === id(row) : undefined}
          onClick=${onChoose ? (event) => { if (!(event.target instanceof Element && event.target.closest('a,button,input,label'))) onChoose(row); } : undefined}
          onKeyDown=${onChoose ? (event) => onKey(event, row) : undefined}>
        ${columns.map((column) => html`<td class=${cell(column)}>${column.show(row)}</td>`)}</tr>`)}
      ${after > 0 && html`<tr aria-hidden="true"><td class="pad" colspan=${columns.length} style=${{ height: `${after}px` }}></td></tr>`}
    </tbody></table>`;
}

/** @param {any} props */
function Cards({ columns, rows, id, chosen, onChoose, before, after }) {
  const at = (place) => columns.find((column) => column.card === place);
  const [one, two, three] = [at(1) ?? columns[0], at(2), at(3)];
  return html`<ul class="cards">
    ${before > 0 && html`<li aria-hidden="true" style=${{ height: `${before}px` }}></li>`}
    ${rows.map((row) => html`<li key=${id(row)}><button type="button" class="card" data-row=${id(row)} aria-pressed=${chosen === undefined ? undefined : chosen === id(row)} onClick=${() => onChoose?.(row)}>
      <b>${one.show(row)}</b>${two && html`<span class="second">${two.name && html`${two.name} `}${two.show(row)}</span>`}${three && html`<span class="third">${three.name && html`<span class="muted">${three.name} </span>`}${three.show(row)}</span>`}</button></li>`)}
    ${after > 0 && html`<li aria-hidden="true" style=${{ height: `${after}px` }}></li>`}
  </ul>`;
}
