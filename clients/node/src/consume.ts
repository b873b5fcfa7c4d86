/** `for await` over a subscription: one message at a time, acknowledged when the loop goes on. */

import { GIVEN_BACK, type Subscription } from "./subscription";
import type { Message, OnMessage } from "./types";

interface Held {
  message: Message;
  done: () => void;
  giveBack: () => void;
}

type Next = IteratorResult<Message, undefined>;

export function consume(subscribe: (onMessage: OnMessage) => Subscription): AsyncIterableIterator<Message> {
  return new Consumption(subscribe);
}

class Consumption implements AsyncIterableIterator<Message> {
  private readonly subscription: Subscription;
  private arrived: Held | undefined; // not asked for yet
  private current: Held | undefined; // with the loop
  private asked: { resolve: (next: Next) => void; reject: (error: unknown) => void } | undefined;
  private end: { error?: unknown } | undefined;

  constructor(subscribe: (onMessage: OnMessage) => Subscription) {
    this.subscription = subscribe((message) => this.hold(message));
    this.subscription.wait().then(
      () => this.finish({}),
      (error: unknown) => this.finish({ error }),
    );
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<Next> {
    this.current?.done();
    this.current = this.arrived;
    this.arrived = undefined;
    if (this.current !== undefined) return Promise.resolve({ done: false, value: this.current.message });
    if (this.end !== undefined) return this.over(this.end);
    return new Promise((resolve, reject) => (this.asked = { resolve, reject }));
  }

  async return(): Promise<Next> {
    this.current?.giveBack();
    this.arrived?.giveBack();
    this.current = this.arrived = undefined;
    await this.subscription.unsubscribe();
    return { done: true, value: undefined };
  }

  throw(): Promise<Next> {
    return this.return();
  }

  /** The handler: done when the loop goes on. */
  private hold(message: Message): Promise<void> {
    return new Promise((resolve, reject) => {
      const held = { message, done: resolve, giveBack: () => reject(GIVEN_BACK) };
      if (this.asked === undefined) {
        this.arrived = held;
        return;
      }
      this.current = held;
      this.asked.resolve({ done: false, value: message });
      this.asked = undefined;
    });
  }

  private finish(end: { error?: unknown }): void {
    this.end = end;
    if (this.asked === undefined) return;
    const { resolve, reject } = this.asked;
    this.asked = undefined;
    this.over(end).then(resolve, reject);
  }

  private over(end: { error?: unknown }): Promise<Next> {
    this.end = {}; // an error is told once
    if (end.error !== undefined) return Promise.reject(end.error);
    return Promise.resolve({ done: true, value: undefined });
  }
}
