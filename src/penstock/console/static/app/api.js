/** The HTTP API: requests, problem details, the login that a 401 asks for. */
import { createStore } from './ui.js';

const ROOT = '/api/v1/';
const PATIENCE = 3; // times that a request waits for its turn

/** What the page knows of who is there, and whether the broker answers. */
export const session = createStore({
  /** @type {any} */ who: null,
  login: false, // the login is open over the page
  loginText: '',
  /** @type {string | null} */ unreachable: null, // since when no request was answered
});

/** @type {((again: boolean) => void)[]} */
let waiting = [];

/** An answer that is not the one that was asked for: RFC 9457. */
export class Problem extends Error {
  /** @param {number} status @param {any} body */
  constructor(status, body) {
    super(body?.detail || body?.title || `the broker answered ${status}`);
    this.status = status;
    this.code = String(body?.code ?? '');
    this.reason = String(body?.reason ?? '');
    this.advice = String(body?.advice ?? '');
    /** @type {{field?: string, name?: string, text?: string, detail?: string}[]} */
    this.fields = Array.isArray(body?.fields) ? body.fields : [];
    this.title = String(body?.title ?? '');
  }
}

/** @param {Record<string, unknown>} [query] */
function search(query = {}) {
  const pairs = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === '' || value === null || value === undefined) continue;
    for (const one of Array.isArray(value) ? value : [value]) pairs.append(name, String(one));
  }
  const text = pairs.toString();
  return text ? `?${text}` : '';
}

/** @param {string} path @param {Record<string, unknown>} [query] */
export const apiAddress = (path, query) => ROOT + path + search(query);

/** A key that lets a change be repeated without being made twice. */
export function newKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/**
 * Send a request and return the response, whatever its status; a login is asked for in between.
 * @param {string} method
 * @param {string} path
 * @param {{query?: Record<string, unknown>, body?: unknown, signal?: AbortSignal, key?: string, stay?: boolean}} [options]
 *   `stay`: do not ask for a login
 * @returns {Promise<Response>}
 */
export async function send(method, path, { query, body, signal, key, stay = false } = {}) {
  /** @type {Record<string, string>} */
  const headers = { accept: 'application/json' };
  if (method !== 'GET') headers['x-penstock'] = '1';
  if (key) headers['idempotency-key'] = key;
  if (body !== undefined) headers['content-type'] = 'application/json';
  for (let attempt = 0; ; attempt += 1) {
    const response = await reach(apiAddress(path, query), {
      method, headers, signal, credentials: 'same-origin', redirect: 'error',
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    if (response.status === 429 && method === 'GET' && path !== 'stream' && attempt < PATIENCE) await pause(response, attempt);
    else if (response.status !== 401 || stay || !(await askForLogin())) return response;
  }
}

/** Wait as long as the broker asks for, and a little more with each attempt. @param {Response} response @param {number} attempt */
async function pause(response, attempt) {
  await response.body?.cancel();
  const seconds = Number(response.headers.get('retry-after')) || 1;
  await new Promise((resolve) => setTimeout(resolve, Math.min(10, seconds) * 1000 * (1 + attempt * Math.random())));
}

/** @param {string} url @param {RequestInit} init */
async function reach(url, init) {
  try {
    const response = await fetch(url, init);
    if (session.get().unreachable) session.set({ unreachable: null });
    return response;
  } catch (error) {
    if (/** @type {Error} */ (error).name === 'AbortError') throw error;
    if (!session.get().unreachable) session.set({ unreachable: new Date().toISOString() });
    throw new Problem(0, { detail: 'The broker cannot be reached.', advice: 'The page tries again by itself.', code: 'unreachable' });
  }
}

/**
 * Send a request; its answer, or a `Problem` is thrown.
 * @param {string} method @param {string} path @param {Parameters<typeof send>[2]} [options]
 * @returns {Promise<any>}
 */
export async function call(method, path, options) {
  const response = await send(method, path, options);
  const text = await response.text();
  const body = text ? parsed(text) : null;
  if (!response.ok) throw new Problem(response.status, body);
  return body;
}

/** @param {string} text */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return { detail: text.slice(0, 500) };
  }
}

/** @param {string} path @param {Record<string, unknown>} [query] @param {AbortSignal} [signal] @returns {Promise<any>} */
export const get = (path, query, signal) => call('GET', path, { query, signal });

/** Open the login over the page. Whether the request may be tried again. @returns {Promise<boolean>} */
export function askForLogin(text = '') {
  session.set({ login: true, loginText: text });
  return new Promise((resolve) => waiting.push(resolve));
}

/** @param {boolean} isIn */
export function loginDone(isIn) {
  session.set({ login: false });
  const waiters = waiting;
  waiting = [];
  for (const resolve of waiters) resolve(isIn);
}

/** Who the requests are made as. */
export async function loadSession() {
  const response = await send('GET', 'session', { stay: true });
  const body = parsed((await response.text()) || '{}');
  if (response.ok) session.set({ who: body });
  else if (response.status === 401) {
    session.set({ who: null });
    if (await askForLogin()) await loadSession();
  }
}
