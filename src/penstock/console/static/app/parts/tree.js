/** The tree of topics: levels are loaded when they are opened, rows are drawn when they are in view. */
import { html, useCallback, useEffect, useRef, useState } from '../ui.js';
import { get } from '../api.js';
import { rate, short, visible } from '../format.js';
import { useStream } from '../live.js';
import { ancestors, below, growth, hasChildren, move, rowsOf } from '../treemodel.js';
import { Icon } from './icons.js';
import { oneLine } from './payload.js';
import { useWindow } from './table.js';
import { ProblemNote } from './states.js';

const ROW = 26;
const PAGE = 500;

/** @param {{prefix: string, chosen: string, onChoose: (name: string) => void, empty: any}} props */
export function TopicTree({ prefix, chosen, onChoose, empty }) {
  const root = prefix.slice(0, prefix.lastIndexOf('/') + 1);
  const part = prefix.slice(root.length);
  const { levels, load, problem, isLoaded } = useLevels(root);
  const [open, setOpen] = useState(() => new Set(ancestors(chosen)));
  const [focused, setFocused] = useState('');
  const ref = useRef(/** @type {HTMLElement | null} */ (null));
  const rows = rowsOf(levels, open, root).filter((row) => !part || row.depth > 0 || row.node?.label.startsWith(part) || row.kind === 'more');
  const { first, last } = useWindow(ref, rows.length, ROW);
  const seen = rows.slice(first, last);
  const values = useValues(seen.filter((row) => row.node?.is_topic).map((row) => /** @type {any} */ (row.node).name).slice(0, 200));
  useEffect(() => { for (const name of open) if (name.startsWith(root)) load(below(name)); }, [open, root]);
  useEffect(() => { for (const row of seen) if (row.kind === 'more') load(row.prefix, true); }, [first, last, rows.length]);
  useEffect(() => { if (chosen) setOpen((old) => (ancestors(chosen).every((name) => old.has(name)) ? old : new Set([...old, ...ancestors(chosen)]))); }, [chosen]);
  const toggle = (name, isOpen) => setOpen((old) => {
    const changed = new Set(old);
    if (isOpen) changed.add(name);
    else changed.delete(name);
    return changed;
  });
  const names = rows.map((row) => row.node?.name ?? `${row.prefix}\n`);
  const at = Math.max(0, names.indexOf(focused || chosen));
  const onKey = (event) => {
    const { to, open: opened, close } = move(rows, at, event.key);
    if (to === undefined && !opened && !close && event.key !== 'Enter' && event.key !== ' ') return;
    event.preventDefault();
    if (opened) toggle(opened, true);
    else if (close) toggle(close, false);
    else if (to !== undefined) focusRow(to);
    else if (rows[at]?.node) choose(rows[at].node);
  };
  const focusRow = (to) => {
    const element = /** @type {HTMLElement} */ (ref.current);
    if (to * ROW < element.scrollTop) element.scrollTop = to * ROW;
    if ((to + 1) * ROW > element.scrollTop + element.clientHeight) element.scrollTop = (to + 1) * ROW - element.clientHeight;
    setFocused(names[to]);
    requestAnimationFrame(() => requestAnimationFrame(() => /** @type {HTMLElement | null} */ (element.querySelector('[tabindex="0"][role="treeitem"]'))?.focus()));
  };
  const choose = (node) => {
    setFocused(node.name);
    if (node.is_topic) onChoose(node.name);
    else toggle(node.name, !open.has(node.name));
  };
  if (problem) return html`<${ProblemNote} problem=${problem} onRetry=${() => load(root)} />`;
  if (isLoaded && !rows.length) return html`<div class="tree" ref=${ref}>${empty}</div>`;
  return html`<div class="tree" ref=${ref} tabIndex="-1"><div role="tree" aria-label="Topics" onKeyDown=${onKey} style=${{ height: `${rows.length * ROW}px`, position: 'relative' }}>
    ${rows.length > 0 && !seen.some((_, index) => first + index === at) && html`<span tabIndex="0" role="treeitem" class="sr" aria-label="To the tree" onFocus=${() => focusRow(at)}></span>`}
    ${seen.map((row, index) => html`<${TreeRow} key=${names[first + index]} row=${row} top=${(first + index) * ROW} value=${row.node && values.get(row.node.name)}
      isChosen=${row.node?.name === chosen && row.node?.is_topic} hasFocus=${first + index === at} onToggle=${toggle} onChoose=${choose} onFocus=${setFocused} />`)}
  </div></div>`;
}

/** @param {any} props */
function TreeRow({ row, top, value, isChosen, hasFocus, onToggle, onChoose, onFocus }) {
  const { node, depth, place, size, isOpen } = row;
  const style = { position: 'absolute', left: 0, right: 0, top: `${top}px`, paddingLeft: `${4 + Math.min(depth, 20) * 16}px` };
  if (!node) return html`<div role="treeitem" aria-level=${depth + 1} aria-setsize=${size} aria-posinset=${place} tabIndex=${hasFocus ? 0 : -1} style=${style}><span class="twist"></span><span class="muted">Loading …</span></div>`;
  const parent = hasChildren(node);
  const last = value?.peek ?? node.last;
  return html`<div role="treeitem" data-row="" aria-level=${depth + 1} aria-setsize=${size} aria-posinset=${place} aria-selected=${isChosen} aria-expanded=${parent ? isOpen : undefined}
      tabIndex=${hasFocus ? 0 : -1} style=${style} onClick=${() => onChoose(node)} onFocus=${() => onFocus(node.name)} title=${visible(node.name)}>
    <span class="twist" onClick=${parent ? (event) => { event.stopPropagation(); onToggle(node.name, !isOpen); } : undefined}>${parent && html`<${Icon} name=${isOpen ? 'down' : 'right'} size=${14} />`}</span>
    <span class="label">${node.label === '' ? html`<span class="muted">(empty level)</span>` : visible(node.label)}</span>
    ${node.is_topic && last ? html`<span class=${`last value ${value?.isFresh ? 'fresh' : ''}`}>${oneLine(last)}</span>` : ''}
    <span class="count">${value?.rate >= 0.05 ? rate(value.rate) : parent ? `${short(node.children)}${node.children_capped ? '+' : ''}` : ''}</span></div>`;
}

/** The levels that were loaded, by prefix. @param {string} root */
function useLevels(root) {
  const [levels, set] = useState(/** @type {Map<string, any>} */ (new Map()));
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const latest = useRef(levels);
  latest.current = levels;
  const put = (prefix, level) => {
    latest.current = new Map(latest.current).set(prefix, level);
    set(latest.current);
  };
  const load = useCallback(async (prefix, more = false) => {
    const before = latest.current.get(prefix);
    if (before && (before.isLoading || (more ? !before.next : true))) return;
    put(prefix, { items: before?.items ?? [], next: before?.next ?? null, isLoading: true });
    try {
      const page = await get('topics/tree', { prefix, limit: PAGE, values: true, cursor: before?.next });
      put(prefix, { items: (before?.items ?? []).concat(page.items), next: page.next, isLoading: false });
      setProblem(null);
    } catch (error) {
      put(prefix, { items: before?.items ?? [], next: null, isLoading: false });
      setProblem(error);
    }
  }, []);
  useEffect(() => { load(root); }, [root]);
  const level = levels.get(root);
  return { levels, load, problem, isLoaded: Boolean(level && !level.isLoading) };
}

/** The newest values of the topics in view, as they change. @param {string[]} topics */
function useValues(topics) {
  const [values, set] = useState(/** @type {Map<string, any>} */ (new Map()));
  useStream(topics.length ? 'topics' : '', (event, data) => {
    if (event !== 'topics') return;
    const now = Date.now();
    set((old) => {
      const changed = new Map(old.size > 2_000 ? [] : old);
      for (const [name, value] of changed) if (value.isFresh) changed.set(name, { ...value, isFresh: false });
      for (const peek of data.items) {
        const before = changed.get(peek.topic);
        changed.set(peek.topic, { ...growth(before, peek.next_offset, now), peek, isFresh: Boolean(before) && before.offset !== peek.next_offset });
      }
      return changed;
    });
  }, { topics });
  return values;
}
