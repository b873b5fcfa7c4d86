// What several test files need.
import assert from "node:assert/strict";
import { once } from "node:events";

let names = 0;

/** A topic that no other test uses. */
export function unique(prefix = "jobs") {
  return `${prefix}/${process.pid}-${++names}`;
}

/** A promise with its functions: tests wait for events. */
export function promised() {
  const made = {};
  made.promise = new Promise((resolve, reject) => Object.assign(made, { resolve, reject }));
  return made;
}

/** Collects, and resolves when there are so many. */
export class Collector {
  constructor() {
    this.items = [];
    this.waiting = [];
  }

  add(item) {
    this.items.push(item);
    this.waiting = this.waiting.filter(({ count, resolve }) => this.items.length < count || resolve(this.items));
  }

  count(count) {
    if (this.items.length >= count) return Promise.resolve(this.items);
    return new Promise((resolve) => this.waiting.push({ count, resolve }));
  }
}

export async function all(iterable) {
  const found = [];
  for await (const item of iterable) found.push(item);
  return found;
}

export function rejects(promise, code) {
  return assert.rejects(promise, (error) => {
    assert.equal(error.code, code, String(error));
    return true;
  });
}

export const text = (message) => message.payload.toString();

export { once };
