/** Payloads for the eye: bytes, text, hexadecimal, coloured JSON. Pure. */

/** @param {string} base64 */
export const fromBase64 = (base64) => Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));

/** @param {Uint8Array} data */
export function toBase64(data) {
  let text = '';
  for (let at = 0; at < data.length; at += 0x8000) text += String.fromCharCode(...data.subarray(at, at + 0x8000));
  return btoa(text);
}

/** @param {{text?: string, base64?: string} | null | undefined} payload */
export function bytesOf(payload) {
  if (payload?.base64 != null) return fromBase64(payload.base64);
  return new TextEncoder().encode(payload?.text ?? '');
}

/** The bytes of a row of the API: with the format `hex` its text is hexadecimal. @param {any} row */
export const bytesOfRow = (row) => (row.format === 'hex' && row.payload.text != null && fromHex(row.payload.text)) || bytesOf(row.payload);

/** @param {{text?: string, base64?: string} | null | undefined} payload */
export function textOf(payload) {
  return payload?.text ?? (payload?.base64 != null ? new TextDecoder().decode(fromBase64(payload.base64)) : '');
}

/** Rows of sixteen bytes, as hexadecimal and as text. @param {Uint8Array} data @param {number} [most] */
export function hexDump(data, most = 4096) {
  const rows = [];
  for (let at = 0; at < Math.min(data.length, most); at += 16) {
    const part = [...data.subarray(at, Math.min(at + 16, most))];
    const hex = part.map((byte) => byte.toString(16).padStart(2, '0')).join(' ');
    const text = part.map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : '·')).join('');
    rows.push(`${at.toString(16).padStart(6, '0')}  ${hex.padEnd(47)}  ${text}`);
  }
  if (data.length > most) rows.push(`… ${data.length - most} bytes more`);
  return rows.join('\n');
}

/** @param {Uint8Array} data */
export const hexOf = (data) => [...data].map((byte) => byte.toString(16).padStart(2, '0')).join(' ');

/** The bytes that somebody typed in hexadecimal, or null. @param {string} text */
export function fromHex(text) {
  const digits = text.replace(/\s|0x/gi, '');
  if (digits.length % 2 || !/^[0-9a-f]*$/i.test(digits)) return null;
  return Uint8Array.from(digits.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}

/** JSON with line breaks; the text itself if it is none. @param {string} text */
export function prettyJson(text) {
  try {
    return indent(text);
  } catch {
    return text;
  }
}

/** Indent without parsing numbers, so that none loses digits. @param {string} text */
function indent(text) {
  JSON.parse(text);
  let [out, depth] = ['', 0];
  const line = () => `\n${'  '.repeat(Math.min(depth, 60))}`;
  for (const token of text.match(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g) ?? []) {
    if (token === '{' || token === '[') [out, depth] = [out + token, depth + 1];
    if (token === '{' || token === '[') out += line();
    else if (token === '}' || token === ']') {
      depth -= 1;
      out = /[{[]\s*$/.test(out) ? out.trimEnd() + token : out + line() + token;
    } else if (token === ',') out += token + line();
    else out += token === ':' ? ': ' : token;
  }
  return out;
}

/**
 * Pieces of JSON text, each with a class: key, string, number, word, or none.
 * @param {string} text @param {number} [most] pieces; the rest is one piece without a class
 * @returns {{kind: string, text: string}[]}
 */
export function jsonPieces(text, most = 600) {
  const pieces = [];
  const pattern = /("(?:[^"\\]|\\.)*")(\s*:)?|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|\b(true|false|null)\b/g;
  let at = 0;
  for (const match of text.matchAll(pattern)) {
    if (pieces.length >= most) break;
    if (match.index > at) pieces.push({ kind: '', text: text.slice(at, match.index) });
    const piece = match[1] ?? match[0];
    pieces.push({ kind: match[1] ? (match[2] ? 'key' : 'string') : match[3] ? 'number' : 'word', text: piece });
    at = match.index + piece.length;
  }
  if (at < text.length) pieces.push({ kind: '', text: text.slice(at) });
  return pieces;
}

/** Paths of the numbers in JSON, for charts. @param {string} text @returns {string[]} */
export function numericFields(text) {
  /** @type {string[]} */
  const found = [];
  const look = (value, path, depth) => {
    if (found.length >= 50 || depth > 6) return;
    if (typeof value === 'number') found.push(path);
    else if (value && typeof value === 'object') for (const [name, inner] of Object.entries(value)) look(inner, path ? `${path}.${name}` : name, depth + 1);
  };
  try {
    look(JSON.parse(text), '', 0);
  } catch {
    return [];
  }
  return found;
}
