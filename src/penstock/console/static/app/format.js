/** How values are written: numbers, sizes, times, and text that strangers chose. Pure. */

const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/**
 * Text with its control and direction characters made visible, so that no name can look like another.
 * @param {unknown} text
 */
export function visible(text) {
  return String(text ?? '').replace(HIDDEN, (char) => {
    const code = char.charCodeAt(0);
    if (code < 0x20) return String.fromCharCode(0x2400 + code);
    if (code === 0x7f) return '\u2421';
    return `\\u${code.toString(16).padStart(4, '0')}`;
  });
}

/** Like `visible`, but lines stay lines and tabs stay tabs. @param {unknown} text */
export function visibleLines(text) {
  return String(text ?? '').replace(/\r\n/g, '\n').split('\n')
    .map((line) => line.split('\t').map(visible).join('\t')).join('\n');
}

const WHOLE = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });

/** @param {number | null | undefined} value */
export function count(value) {
  return value == null || Number.isNaN(value) ? '–' : WHOLE.format(value);
}

/** A figure in at most five characters. @param {number | null | undefined} value */
export function short(value) {
  if (value == null || Number.isNaN(value)) return '–';
  const size = Math.abs(value);
  if (size < 10_000) return count(value);
  for (const [unit, factor] of /** @type {[string, number][]} */ ([['G', 1e9], ['M', 1e6], ['k', 1e3]])) {
    if (size >= factor) return digits(value / factor) + ' ' + unit;
  }
  return count(value);
}

/** Three digits. @param {number} value */
export function digits(value) {
  const size = Math.abs(value);
  if (size >= 100 || value === 0) return value.toFixed(0);
  if (size >= 10) return value.toFixed(1);
  return size >= 0.01 ? value.toFixed(2) : value.toPrecision(2);
}

/** @param {number | null | undefined} value */
export function rate(value) {
  if (value == null || Number.isNaN(value)) return '–';
  if (value === 0) return '0/s';
  return (Math.abs(value) < 10 ? digits(value) : short(Math.round(value))) + '/s';
}

/** @param {number | null | undefined} value */
export function bytes(value) {
  if (value == null || Number.isNaN(value)) return '–';
  if (Math.abs(value) < 1024) return `${count(value)} B`;
  let size = value;
  for (const unit of ['KiB', 'MiB', 'GiB', 'TiB']) {
    size /= 1024;
    if (Math.abs(size) < 1000 || unit === 'TiB') return `${digits(size)} ${unit}`;
  }
  return '';
}

/** A duration with one unit. @param {number | null | undefined} seconds */
export function duration(seconds) {
  if (seconds == null || Number.isNaN(seconds)) return '–';
  const size = Math.abs(seconds);
  if (size < 1e-3 && size > 0) return `${digits(seconds * 1e6)} µs`;
  if (size < 1 && size > 0) return `${digits(seconds * 1e3)} ms`;
  if (size < 100) return `${size < 10 && size % 1 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  if (size < 100 * 60) return `${Math.round(seconds / 60)} min`;
  if (size < 48 * 3600) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} d`;
}

/** @param {number | null | undefined} ms */
export const milliseconds = (ms) => duration(ms == null ? ms : ms / 1000);

/** @param {number | null | undefined} share between 0 and 1 */
export function percent(share) {
  if (share == null || Number.isNaN(share)) return '–';
  const value = share * 100;
  return `${value >= 10 || value === 0 ? value.toFixed(0) : value.toFixed(1)} %`;
}

/** @param {number} number @param {number} [length] */
const two = (number, length = 2) => String(number).padStart(length, '0');

/**
 * A time of the API as the reader's clock shows it: today without the date.
 * @param {string | number | null | undefined} value
 * @param {{ms?: boolean, now?: number}} [options]
 */
export function time(value, { ms = false, now = Date.now() } = {}) {
  const date = toDate(value);
  if (date === null) return '–';
  const today = new Date(now);
  const clock = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  const exact = ms ? `${clock}.${two(date.getMilliseconds(), 3)}` : clock;
  if (date.toDateString() === today.toDateString()) return exact;
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${exact}`;
}

/** How long ago. @param {string | number | null | undefined} value @param {number} [now] */
export function ago(value, now = Date.now()) {
  const date = toDate(value);
  return date === null ? '–' : duration(Math.max(0, Math.round((now - date.getTime()) / 1000)));
}

/** @param {string | number | null | undefined} value */
export function toDate(value) {
  if (value == null || value === '') return null;
  const date = new Date(value);
  return Number.isNaN(date.getTime()) ? null : date;
}

/**
 * A moment that somebody typed: `14:03`, `14:03:07`, `2026-11-18 14:03`, RFC 3339, or `-15m`.
 * @param {string} text
 * @param {number} [now]
 * @returns {string | null} for the API, or null if it cannot be read
 */
export function parseMoment(text, now = Date.now()) {
  const trimmed = text.trim();
  const back = /^-(\d+)\s*(s|m|min|h|d)$/.exec(trimmed);
  if (back) {
    const unit = { s: 1, m: 60, min: 60, h: 3600, d: 86400 }[back[2]] ?? 1;
    return new Date(now - Number(back[1]) * unit * 1000).toISOString();
  }
  const clock = /^(\d{1,2}):(\d{2})(?::(\d{2})(\.\d{1,3})?)?$/.exec(trimmed);
  if (clock) {
    const date = new Date(now);
    date.setHours(Number(clock[1]), Number(clock[2]), Number(clock[3] ?? 0), Number(clock[4] ?? 0) * 1000);
    if (date.getTime() > now) date.setDate(date.getDate() - 1);
    return date.toISOString();
  }
  const date = trimmed.length >= 8 ? toDate(trimmed.replace(/^(\d{4}-\d{2}-\d{2}) /, '$1T')) : null;
  return date === null ? null : date.toISOString();
}

/** The words of a code: `session_taken_over` → `session taken over`. @param {unknown} code */
export const words = (code) => visible(code).replaceAll('_', ' ');

/**
 * A text of the broker as a sentence: with a capital, and a stop at its end. Pure.
 * @param {unknown} text
 */
export function sentence(text) {
  const said = String(text ?? '').trim();
  if (!said) return '';
  return said.charAt(0).toUpperCase() + said.slice(1) + (/[.!?]$/.test(said) ? '' : '.');
}

/**
 * The pieces of an advice: names of options and commands stand between back-ticks. Pure.
 * @param {unknown} text @returns {{text: string, isCode: boolean}[]}
 */
export function pieces(text) {
  return String(text ?? '').split('`').map((piece, index) => ({ text: piece, isCode: index % 2 === 1 })).filter((piece) => piece.text);
}

/** @param {number} number @param {string} one @param {string} [many] */
export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;
