/** Small drawings; each stands beside a word, and none says anything alone. */
import { html } from '../ui.js';

const PATHS = {
  overview: 'M2 9h3l2-6 3 10 2-4h2', topics: 'M3 3h4M3 8h4M3 13h4M7 3v10M10 5h4M10 10h4',
  clients: 'M2 5h5v4H2zM9 3h5v4H9zM9 10h5v3H9zM7 7l2-2M7 8l2 3', groups: 'M2 3h8M2 8h8M2 13h8M12 3v10M12 13l2-2M12 13l-2-2',
  spark: 'M3 13V8M7 13V4M11 13V6M14 13H2', cluster: 'M8 2v4M8 6l-5 4M8 6l5 4M6 2h4M1 10h4v3H1zM11 10h4v3h-4z',
  schedules: 'M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2M8 5v3l2 2',
  security: 'M8 2l5 2v4c0 3-2 5-5 6-3-1-5-3-5-6V4z', settings: 'M2 4h7M12 4h2M9 2v4M2 11h2M7 11h7M5 9v4',
  live: 'M2 3h12M2 7h9M2 11h12M13 14l-2-2M5 14l2-2', why: 'M5 6a3 3 0 1 1 4 3c-1 .5-1 1-1 2M8 13v.6',
  search: 'M7 3a4 4 0 1 0 0 8 4 4 0 0 0 0-8M10 10l4 4', menu: 'M2 4h12M2 8h12M2 12h12', close: 'M3 3l10 10M13 3L3 13',
  right: 'M6 4l4 4-4 4', down: 'M4 6l4 4 4-4', pause: 'M5 3v10M11 3v10', play: 'M4 3l9 5-9 5z', user: 'M8 3a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5M3 14c0-3 2-4 5-4s5 1 5 4',
  ok: 'M3 8l3 4 7-8', warn: 'M8 2l6 11H2zM8 6v4M8 11.5v.5', bad: 'M5 2h6l3 3v6l-3 3H5l-3-3V5zM6 6l4 4M10 6l-4 4', info: 'M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2M8 7v4M8 4.6v.6',
  copy: 'M6 6h7v7H6zM3 10V3h7', pin: 'M8 9v5M4 9h8l-2-3V2H6v4z',
};

/** @param {{name: string, tone?: string, size?: number}} props */
export function Icon({ name, tone = '', size = 16 }) {
  return html`<svg class=${tone} width=${size} height=${size} viewBox="0 0 16 16" fill="none" stroke="currentColor"
    stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true"><path d=${PATHS[/** @type {keyof typeof PATHS} */ (name)] ?? ''} /></svg>`;
}

/** A word with its colour and its shape. @param {{tone: 'ok'|'warn'|'bad'|'info', children?: any}} props */
export function Mark({ tone, children }) {
  return html`<span class=${`mark ${tone}`}><${Icon} name=${tone} tone=${tone} />${children}</span>`;
}
