/** Event streams, read by `fetch`: an EventSource hides the status and sends no headers. The parser is pure. */

/** @typedef {{event: string, data: string, id: string}} StreamEvent */

/** Splits text that arrives in pieces into events. */
export class EventParser {
  constructor() {
    this.rest = '';
    this.event = '';
    this.id = '';
    /** @type {string[]} */
    this.data = [];
  }

  /** @param {string} text @returns {StreamEvent[]} */
  push(text) {
    const lines = (this.rest + text).split(/\r\n|\n|\r(?!$)/);
    this.rest = lines.pop() ?? '';
    /** @type {StreamEvent[]} */
    const found = [];
    for (const line of lines) this.line(line, found);
    return found;
  }

  /** @param {string} line @param {StreamEvent[]} found */
  line(line, found) {
    if (line === '') {
      if (this.data.length) found.push({ event: this.event || 'message', data: this.data.join('\n'), id: this.id });
      this.event = '';
      this.data = [];
      return;
    }
    const colon = line.indexOf(':');
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (name === 'event') this.event = value;
    else if (name === 'data') this.data.push(value);
    else if (name === 'id') this.id = value;
  }
}

/** How long to wait before the next attempt: doubled each time, at most 15 s, with some chance. */
export function backOff(attempt, chance = Math.random()) {
  return Math.min(15_000, 500 * 2 ** Math.min(attempt, 6)) * (0.75 + chance / 2);
}

/**
 * Read a response to its end.
 * @param {Response} response
 * @param {(event: StreamEvent) => void} onEvent
 */
export async function readEvents(response, onEvent) {
  const parser = new EventParser();
  const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
  const decoder = new TextDecoder();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    for (const event of parser.push(decoder.decode(value, { stream: true }))) onEvent(event);
  }
}
