/**
 * What changes by itself. One stream for all parts of the page that listen; it is closed while the
 * tab is hidden or paused, and opened again with other sources when what is looked at changes.
 * Where there is no room for a stream (429), the page asks every five seconds instead.
 */
import { createStore, useEffect, useRef, useState } from './ui.js';
import { Problem, get, send, session } from './api.js';
import { backOff, readEvents } from './sse.js';

export const live = createStore({
  paused: false,
  /** @type {'off' | 'live' | 'polling' | 'lost'} */ state: 'off',
  /** @type {string | null} */ since: null, // when it was last live
  skipped: 0,
});

const POLL_MS = 5_000;
const ADDRESS_CHARS = 8_000; // of the names in the address of a stream; the broker reads 16 KiB

/** The first names that fit. Pure. @param {string[]} names @param {number} most */
export function upTo(names, most) {
  let left = most;
  return names.filter((name) => (left -= encodeURIComponent(name).length + 7) >= 0);
}

/** @typedef {{of: string, topics?: string[], query?: Record<string, string>, on: (event: string, data: any) => void}} Listener */

/** @type {Set<Listener>} */
const listeners = new Set();
/** @type {AbortController | null} */
let current = null;
let opened = '';
let attempt = 0;
let timer = 0;

function wanted() {
  const of = [...new Set([...listeners].map((one) => one.of))].sort();
  const topic = upTo([...new Set([...listeners].flatMap((one) => one.topics ?? []))].sort(), ADDRESS_CHARS);
  const query = Object.assign({}, ...[...listeners].map((one) => one.query ?? {}));
  return { of: of.join(','), topic, ...query };
}

/** Open, close or open again, soon: several parts of a page change together. */
function adjust(delay = 50) {
  clearTimeout(timer);
  timer = window.setTimeout(run, delay);
}

async function run() {
  const query = wanted();
  const name = JSON.stringify(query);
  const isOff = live.get().paused || document.hidden || !query.of;
  if (!isOff && current && name === opened) return;
  current?.abort();
  current = null;
  if (isOff) {
    live.set({ state: 'off' });
    return;
  }
  const controller = new AbortController();
  current = controller;
  opened = name;
  try {
    await follow(query, controller);
    throw new Problem(0, { detail: 'the stream ended' });
  } catch (problem) {
    if (current !== controller) return;
    current = null;
    lost(/** @type {Problem} */ (problem));
  }
}

/** @param {Record<string, unknown>} query @param {AbortController} controller */
async function follow(query, controller) {
  const response = await send('GET', 'stream', { query, signal: controller.signal });
  if (!response.ok) {
    await response.body?.cancel();
    throw new Problem(response.status, {});
  }
  attempt = 0;
  live.set({ state: 'live', since: new Date().toISOString() });
  await readEvents(response, ({ event, data }) => {
    if (current !== controller) return;
    const body = JSON.parse(data);
    for (const listener of [...listeners]) listener.on(event, body);
  });
}

/** @param {Problem} problem */
function lost(problem) {
  if (problem.status === 429) {
    live.set({ state: 'polling' });
    adjust(POLL_MS);
    return;
  }
  const { state, since } = live.get();
  live.set({ state: 'lost', since: state === 'live' ? new Date().toISOString() : since });
  attempt += 1;
  adjust(backOff(attempt));
}

export function startLive() {
  document.addEventListener('visibilitychange', () => adjust());
}

/** @param {boolean} paused */
export function setPaused(paused) {
  live.set({ paused });
  adjust(0);
}

/**
 * Listen while the component is there.
 * @param {string} of a source of the stream; empty: none
 * @param {(event: string, data: any) => void} on
 * @param {{topics?: string[], query?: Record<string, string>}} [options]
 */
export function useStream(of, on, { topics, query } = {}) {
  const latest = useRef(on);
  latest.current = on;
  useEffect(() => {
    if (!of) return undefined;
    const listener = { of, topics, query, on: (event, data) => latest.current(event, data) };
    listeners.add(listener);
    adjust(200);
    return () => {
      listeners.delete(listener);
      adjust(200);
    };
  }, [of, (topics ?? []).join('\n'), JSON.stringify(query ?? {})]);
}

/** Call `action` every `ms` while somebody looks and nothing is paused. @param {() => void} action @param {number} ms */
export function useEvery(action, ms) {
  const latest = useRef(action);
  latest.current = action;
  useEffect(() => {
    if (!ms) return undefined;
    const id = setInterval(() => {
      if (!document.hidden && !live.get().paused) latest.current();
    }, ms);
    return () => clearInterval(id);
  }, [ms]);
}

/**
 * A resource: loaded at once, again when `query` changes, and every `every` ms.
 * The last data stay while it is loaded again or cannot be.
 * @param {string | null} path null: nothing to load
 * @param {Record<string, unknown>} [query]
 * @param {{every?: number}} [options]
 */
export function useResource(path, query = {}, { every = 0 } = {}) {
  const name = path === null ? '' : path + JSON.stringify(query);
  const [state, set] = useState(/** @type {any} */ ({ name: '', data: null, problem: null, at: null, isLoading: true }));
  const running = useRef(/** @type {AbortController | null} */ (null));
  const load = async () => {
    if (path === null) return;
    running.current?.abort();
    const controller = new AbortController();
    running.current = controller;
    try {
      const data = await get(path, query, controller.signal);
      set({ name, data, problem: null, at: Date.now(), isLoading: false });
    } catch (problem) {
      if (controller.signal.aborted) return;
      set((old) => ({ ...old, name, data: old.name === name ? old.data : null, problem, isLoading: false }));
    }
  };
  useEffect(() => {
    set((old) => ({ ...old, isLoading: true }));
    load();
    return () => running.current?.abort();
  }, [name]);
  useEvery(load, every);
  const isCurrent = state.name === name;
  return { data: isCurrent ? state.data : null, problem: isCurrent ? state.problem : null, isLoading: !isCurrent || state.isLoading, at: state.at, reload: load };
}

/**
 * A list that is loaded page by page. The first page is refreshed every `every` ms while it is the only one.
 * @param {string | null} path
 * @param {Record<string, unknown>} [query]
 * @param {{every?: number, limit?: number}} [options]
 */
export function useList(path, query = {}, { every = 0, limit = 200 } = {}) {
  const name = path === null ? '' : path + JSON.stringify(query);
  const empty = { name, items: /** @type {any[]} */ ([]), next: null, incomplete: [], problem: null, isLoading: path !== null, pages: 0, head: null };
  const [state, set] = useState(/** @type {any} */ (empty));
  const latest = useRef(state);
  latest.current = state;
  const running = useRef(/** @type {AbortController | null} */ (null));
  const load = async (more) => {
    if (path === null) return;
    running.current?.abort();
    const controller = new AbortController();
    running.current = controller;
    const before = latest.current.name === name ? latest.current : empty;
    try {
      const page = await get(path, { ...query, limit, ...(more ? { cursor: before.next } : {}) }, controller.signal);
      const items = more ? before.items.concat(page.items) : page.items;
      set({ name, items, next: page.next, incomplete: page.incomplete ?? [], problem: null, isLoading: false, pages: more ? before.pages + 1 : 1, head: page });
    } catch (problem) {
      if (!controller.signal.aborted) set({ ...before, problem, isLoading: false });
    } finally {
      if (running.current === controller) running.current = null;
    }
  };
  useEffect(() => {
    set(latest.current.name === name ? latest.current : { ...empty });
    load(false);
    return () => running.current?.abort();
  }, [name]);
  useEvery(() => { if (latest.current.pages <= 1 && !running.current) load(false); }, every);
  const isCurrent = state.name === name;
  const shown = isCurrent ? state : empty;
  return {
    ...shown,
    reload: () => load(false),
    more: () => { if (latest.current.next && !running.current) load(true); },
  };
}

/** Whether what the page shows may be out of date. */
export const isStale = () => live.get().state === 'lost' || session.get().unreachable !== null;
