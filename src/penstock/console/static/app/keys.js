/** The keyboard: `g` and a letter for pages, single letters for actions of the page. Can be switched off. */
import { choices } from './state.js';
import { useEffect, useRef } from './ui.js';
import { address, go } from './router.js';
import { live, setPaused } from './live.js';

export const PAGES = /** @type {[string, string, string][]} */ ([
  ['o', 'overview', 'Overview'], ['t', 'topics', 'Topics'], ['c', 'clients', 'Clients'], ['q', 'groups', 'Groups'],
  ['s', 'spark', 'Spark'], ['n', 'cluster', 'Cluster'],
  ['b', 'schedules', 'Schedules and bridges'], ['u', 'security', 'Security'], ['e', 'settings', 'Settings'],
  ['l', 'live', 'Live tail'], ['w', 'why', 'Why'],
]);

/** @type {Map<string, (() => void)[]>} */
const actions = new Map();
let pending = -Infinity; // when `g` was pressed

/** @param {Element | null} element */
function takesText(element) {
  return element instanceof HTMLElement && (element.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(element.tagName));
}

/** @param {KeyboardEvent} event */
function onKey(event) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || !choices.get().keys) return;
  if (takesText(document.activeElement) || document.querySelector('dialog[open]')) return;
  const wasG = event.timeStamp - pending < 1_500;
  pending = -Infinity;
  if (wasG) {
    const page = PAGES.find(([letter]) => letter === event.key);
    if (page) {
      event.preventDefault();
      go(address(page[1]));
    }
    return;
  }
  if (event.key === 'g') {
    pending = event.timeStamp;
    return;
  }
  const action = actions.get(event.key)?.at(-1);
  if (action) {
    event.preventDefault();
    action();
  }
}

export function startKeys() {
  document.addEventListener('keydown', onKey);
  bind('/', () => document.getElementById('search')?.focus());
  bind('.', () => setPaused(!live.get().paused));
  bind('j', () => step(1));
  bind('k', () => step(-1));
}

/** @param {string} key @param {() => void} action */
function bind(key, action) {
  actions.set(key, [...(actions.get(key) ?? []), action]);
  return () => actions.set(key, (actions.get(key) ?? []).filter((one) => one !== action));
}

/** A key while the component is there; the innermost wins. @param {string} key @param {() => void} action */
export function useKey(key, action) {
  const latest = useRef(action);
  latest.current = action;
  useEffect(() => bind(key, () => latest.current()), [key]);
}

/** To the next or previous row of the list that has, or last had, the focus. @param {number} by */
function step(by) {
  const rows = /** @type {HTMLElement[]} */ ([...document.querySelectorAll('main [data-row]')]);
  const at = rows.findIndex((row) => row === document.activeElement || row.contains(document.activeElement));
  const row = rows[at < 0 ? 0 : Math.max(0, Math.min(rows.length - 1, at + by))];
  row?.focus();
}
