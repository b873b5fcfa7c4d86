/**
 * `produceMany`: cuts messages into batches, and takes no more of a source than the broker accepts.
 *
 * Consecutive messages that differ only in payload and seq share a request. Eight requests are under
 * way; then the source waits. A batch leaves when it is full, when the next message does not fit
 * into it, or when the source has nothing more in this turn of the event loop: a slow source is not
 * held back. Results come in the order of the messages.
 */

import { PenstockError } from "./errors";
import type { Link } from "./link";
import { Batch, type Producer } from "./producer";
import { produceMany } from "./requests";
import type { ProduceItem, ProduceManyOptions, ProduceResult } from "./types";

const UNDER_WAY_MAX = 8;

export type Items = Iterable<ProduceItem> | AsyncIterable<ProduceItem>;

export class Batches {
  readonly results: ProduceResult[] = [];
  private batch: Batch | undefined;
  private underWay: Promise<ProduceResult[]>[] = [];
  private idle: NodeJS.Immediate | undefined;
  private told = 0;

  constructor(
    private readonly link: Link,
    private readonly producer: Producer,
    private readonly options: ProduceManyOptions,
  ) {}

  async takeAll(items: Items): Promise<ProduceResult[]> {
    try {
      if (Symbol.asyncIterator in items) {
        for await (const item of items) await this.take(item, true);
      } else {
        for (const item of items) {
          const room = this.take(item, false);
          if (room !== undefined) await room;
        }
      }
      this.leave();
      while (this.underWay.length > 0) await this.settleOldest();
    } finally {
      clearImmediate(this.idle);
      for (const batch of this.underWay) batch.catch(() => undefined); // told by the first
    }
    return this.results;
  }

  /** Add a message; the promise, if there is one, resolves when there is room for more. */
  private take(item: ProduceItem, isSlow: boolean): Promise<void> | undefined {
    this.options.signal?.throwIfAborted();
    try {
      const message = this.producer.numbered(item);
      if (this.batch?.takes(message) !== true) {
        this.leave();
        this.batch = new Batch(message);
        if (isSlow) this.idle = setImmediate(() => this.leave());
      }
    } catch (error) {
      if (!(error instanceof PenstockError)) throw error;
      this.leave();
      this.underWay.push(Promise.resolve([{ error }]));
    }
    return this.underWay.length < UNDER_WAY_MAX ? undefined : this.makeRoom();
  }

  /** Send the batch, if there is one. */
  private leave(): void {
    clearImmediate(this.idle);
    if (this.batch === undefined) return;
    const { request, payloads } = this.batch;
    this.batch = undefined;
    const asked = this.link.ask(produceMany(request, this.options));
    this.underWay.push(asked.catch((error: unknown) => this.failed(error, payloads.length)));
  }

  private failed(error: unknown, count: number): ProduceResult[] {
    if (!(error instanceof PenstockError)) throw error; // the reason of an abort
    return Array.from({ length: count }, () => ({ error }));
  }

  private async makeRoom(): Promise<void> {
    while (this.underWay.length >= UNDER_WAY_MAX) await this.settleOldest();
  }

  private async settleOldest(): Promise<void> {
    const results = await this.underWay[0]!;
    this.underWay.shift();
    const { onResult } = this.options;
    if (onResult === undefined) for (const result of results) this.results.push(result);
    else for (const result of results) onResult(result, this.told++);
  }
}
