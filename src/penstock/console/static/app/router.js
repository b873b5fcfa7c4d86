/** The address holds what the page shows, so that it can be shared, and Back goes back. */
import { createStore } from './ui.js';

const HOME = '/console/';

/** @typedef {{page: string, query: Record<string, string>}} Place */

/** @param {{pathname: string, search: string}} location @returns {Place} */
export function placeOf({ pathname, search }) {
  const page = pathname.startsWith(HOME) ? pathname.slice(HOME.length).replace(/\/+$/, '') : '';
  return { page: page || 'overview', query: Object.fromEntries(new URLSearchParams(search)) };
}

/** @param {string} page @param {Record<string, unknown>} [query] */
export function address(page, query = {}) {
  const kept = Object.entries(query).filter(([, value]) => value !== '' && value != null && value !== false);
  const search = new URLSearchParams(kept.map(([name, value]) => [name, String(value)])).toString();
  return HOME + (page === 'overview' ? '' : page) + (search ? `?${search}` : '');
}

const inBrowser = typeof location !== 'undefined';
export const place = createStore(inBrowser ? placeOf(location) : { page: 'overview', query: {} });

/** @param {string} url @param {{replace?: boolean}} [options] */
export function go(url, { replace = false } = {}) {
  history[replace ? 'replaceState' : 'pushState'](null, '', url);
  place.set(placeOf(location));
}

/** Change what this page shows. @param {Record<string, unknown>} changes @param {{replace?: boolean}} [options] */
export function refine(changes, options = { replace: true }) {
  const { page, query } = place.get();
  go(address(page, { ...query, ...changes }), options);
}

/** Take over links within the console. @param {MouseEvent} event */
function follow(event) {
  const link = event.target instanceof Element ? event.target.closest('a') : null;
  if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
  const url = new URL(link.href, location.href);
  if (url.origin !== location.origin || !url.pathname.startsWith(HOME) || link.target) return;
  event.preventDefault();
  go(url.pathname + url.search);
}

export function startRouter() {
  addEventListener('popstate', () => place.set(placeOf(location)));
  document.addEventListener('click', follow);
}
