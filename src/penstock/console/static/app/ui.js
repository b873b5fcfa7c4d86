/** What every component needs: the tag for templates, hooks, and a store that components can watch. */
import { h, render, Fragment } from '../vendor/preact.js';
import { useState, useEffect, useRef, useMemo, useCallback, useLayoutEffect } from '../vendor/hooks.js';
import htm from '../vendor/htm.js';

/** @type {(strings: TemplateStringsArray, ...values: any[]) => any} */
export const html = htm.bind(h);
export { h, render, Fragment, useState, useEffect, useRef, useMemo, useCallback, useLayoutEffect };

/**
 * A value that can be watched. `set` merges a patch.
 * @template {object} T
 * @param {T} value
 */
export function createStore(value) {
  /** @type {Set<() => void>} */
  const watchers = new Set();
  return {
    get: () => value,
    /** @param {Partial<T>} patch */
    set(patch) {
      value = { ...value, ...patch };
      for (const watcher of [...watchers]) watcher();
    },
    /** @param {() => void} watcher */
    watch(watcher) {
      watchers.add(watcher);
      return () => { watchers.delete(watcher); };
    },
  };
}

/**
 * The value of a store; the component is drawn again when it changes.
 * @template {object} T
 * @param {{get: () => T, watch: (watcher: () => void) => () => void}} store
 * @returns {T}
 */
export function useStore(store) {
  const [, redraw] = useState(0);
  useEffect(() => store.watch(() => redraw((n) => n + 1)), [store]);
  return store.get();
}

/** Whether the window is as narrow as a phone. */
export function useNarrow() {
  const query = useMemo(() => matchMedia('(max-width: 760px)'), []);
  const [narrow, set] = useState(query.matches);
  useEffect(() => {
    const note = () => set(query.matches);
    query.addEventListener('change', note);
    return () => query.removeEventListener('change', note);
  }, []);
  return narrow;
}

let count = 0;
/** An id for a label and its field. @param {string} [prefix] */
export function useId(prefix = 'f') {
  return useMemo(() => `${prefix}${(count += 1)}`, []);
}

/** @param {...(string | false | null | undefined)} names */
export const classes = (...names) => names.filter(Boolean).join(' ');
