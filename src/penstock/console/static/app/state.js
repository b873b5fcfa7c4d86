/** What the reader chose, kept in this browser; and messages that come and go. */
import { createStore } from './ui.js';

/** @param {string} name @param {string} fallback */
function stored(name, fallback) {
  try {
    return localStorage.getItem(`penstock.${name}`) ?? fallback;
  } catch {
    return fallback;
  }
}

/** @param {string} name @param {string} value */
export function store(name, value) {
  try {
    localStorage.setItem(`penstock.${name}`, value);
  } catch {
    // a browser that keeps nothing: the choice holds for this page
  }
}

const inBrowser = typeof document !== 'undefined';
export const choices = createStore({
  theme: inBrowser ? stored('theme', 'system') : 'system',
  keys: inBrowser ? stored('keys', 'on') === 'on' : true,
  pinned: inBrowser ? stored('pinned', '').split('\n').filter(Boolean) : [],
});

/** @param {string} theme system, light or dark */
export function setTheme(theme) {
  choices.set({ theme });
  store('theme', theme);
  applyTheme();
}

export function applyTheme() {
  const { theme } = choices.get();
  if (theme === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

/** @param {boolean} on */
export function setKeys(on) {
  choices.set({ keys: on });
  store('keys', on ? 'on' : 'off');
}

/** @param {string} topic */
export function togglePin(topic) {
  const { pinned } = choices.get();
  const changed = pinned.includes(topic) ? pinned.filter((one) => one !== topic) : [...pinned, topic].slice(-20);
  choices.set({ pinned: changed });
  store('pinned', changed.join('\n'));
}

export const toasts = createStore({ items: /** @type {{id: number, text: string, kind: string, action?: {label: string, run: () => void}}[]} */ ([]) });
let last = 0;

/** Say what became of an action. @param {string} text @param {{kind?: string, action?: {label: string, run: () => void}}} [options] */
export function toast(text, { kind = 'ok', action } = {}) {
  const id = (last += 1);
  toasts.set({ items: [...toasts.get().items.slice(-3), { id, text, kind, action }] });
  setTimeout(() => dismiss(id), action ? 20_000 : 6_000);
}

/** @param {number} id */
export const dismiss = (id) => toasts.set({ items: toasts.get().items.filter((one) => one.id !== id) });

/** @param {any} problem */
export const complain = (problem) => toast([problem.message, problem.advice].filter(Boolean).join(' · '), { kind: 'bad' });
