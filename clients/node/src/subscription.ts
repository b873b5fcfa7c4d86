/**
 * The life of a subscription: connect, read, hand out, settle, finish.
 *
 * It reconnects for ever, at growing intervals, unless the broker refuses it for good. Up to
 * `concurrency` handlers run; acknowledgements of one turn of the event loop leave in one write.
 * While a handler has a message, its lease is extended at half-time.
 *
 * **When it ends**, running handlers finish and their acknowledgements are sent; messages that wait
 * for a handler are left to the broker, which hands them to others. With `ackMode: "auto"` they
 * would be lost: then the broker is first told that we leave, and everything it has sent until it
 * closes is handled. To leave is to close our direction and to read to the end: closing a socket
 * with unread data would make the broker drop what it has not read yet, such as acknowledgements.
 */

import type { Socket } from "node:net";

import type { Pool } from "./addresses";
import * as check from "./checks";
import { dial, type DialOptions } from "./dial";
import { asPenstockError, DeadLetter, isFinal, PenstockError, Retry } from "./errors";
import { PushSession } from "./push";
import type { Message, OnError, OnMessage, SubscribeOptions } from "./types";

const CONNECT_MS = 3_000;
const LINGER_MS = 1_000; // how long we read to the end
const LOOK_MS = 1_000;
const STEADY_MS = 10_000; // a connection that lasted so long was a good one
const PREFETCH = 16;

/** Thrown by a handler that gives its message back without a failure. */
export const GIVEN_BACK = Symbol("given back");

export interface PushSettings {
  makePool: () => Pool;
  options: DialOptions;
}

export class Subscription {
  private readonly session: PushSession;
  private readonly pool: Pool;
  private readonly dialOptions: DialOptions;
  private readonly concurrency: number;
  private readonly prefetch: number;
  private readonly isAuto: boolean;
  private readonly lookMs: number;
  private readonly ending = new AbortController();
  private readonly ended: Promise<void>;
  private socket: Socket | undefined;
  private arrived: Message[] = [];
  private running = 0;
  private whenDrained: (() => void) | undefined;
  private isPumping = false;
  private isFlushing = false;
  private timer: NodeJS.Timeout | undefined;
  private lookedAt = 0;

  /** @internal */
  constructor(
    push: PushSettings,
    private readonly subscribed: SubscribeOptions,
    private readonly onMessage: OnMessage,
    private readonly onError: OnError | undefined,
  ) {
    const { concurrency, prefetch, signal, visibilityMs = 30_000 } = subscribed;
    this.concurrency = check.uint32("concurrency", concurrency ?? prefetch ?? PREFETCH, 1);
    this.prefetch = check.uint32("prefetch", prefetch ?? concurrency ?? PREFETCH, 1);
    this.isAuto = subscribed.ackMode === "auto";
    this.session = new PushSession(subscribed, this.prefetch);
    this.lookMs = Math.max(10, Math.min(LOOK_MS, visibilityMs / 4));
    this.pool = push.makePool();
    this.dialOptions = push.options;
    const stop = () => void this.unsubscribe();
    signal?.addEventListener("abort", stop, { once: true });
    if (signal?.aborted) this.ending.abort();
    this.ended = this.run().finally(() => signal?.removeEventListener("abort", stop));
    this.ended.catch(() => undefined); // wait() tells
  }

  /**
   * Take no more messages. Resolves when the handlers that run are done and the broker was told;
   * so a handler that calls this must not wait for it.
   */
  async unsubscribe(): Promise<void> {
    this.ending.abort();
    await this.ended.catch(() => undefined);
  }

  /** Wait for the end. Rejects if the broker refused the subscription for good. */
  wait(): Promise<void> {
    return this.ended;
  }

  /** @internal As `unsubscribe`, but handlers that still run after `ms` are left behind. */
  async end(ms: number): Promise<void> {
    const late = setTimeout(() => this.abandon(), ms);
    await this.unsubscribe();
    clearTimeout(late);
  }

  private abandon(): void {
    this.flush();
    this.running = 0;
    this.whenDrained?.();
  }

  private get isEnding(): boolean {
    return this.ending.signal.aborted;
  }

  // ── Connections ───────────────────────────────────────────────────────────────────────────────

  private async run(): Promise<void> {
    let refused: PenstockError | undefined;
    while (!this.isEnding && refused === undefined) {
      const begunAt = performance.now();
      const error = await this.converse();
      if (error === undefined) continue;
      if (error.code !== "not_leader") this.report(error);
      if (isFinal(error)) refused = error;
      if (performance.now() - begunAt > STEADY_MS) this.pool.succeeded();
      if (refused === undefined) await this.pause(this.pool.failed(error));
    }
    this.ending.abort();
    await this.drained();
    if (refused !== undefined) throw refused;
  }

  /** One connection, from its beginning to its end; return why it ended, unless we did it. */
  private async converse(): Promise<PenstockError | undefined> {
    const { signal } = this.ending;
    try {
      const socket = await dial(this.pool.address, this.dialOptions, CONNECT_MS, signal);
      try {
        await this.serve(socket);
        await this.finish(socket);
      } finally {
        this.socket = undefined;
        clearTimeout(this.timer);
        socket.destroy();
      }
    } catch (error) {
      return signal.aborted ? undefined : asPenstockError(error);
    }
    return undefined;
  }

  /** Hand out what comes until we end; reject if the connection ends before. */
  private serve(socket: Socket): Promise<void> {
    this.socket = socket;
    return new Promise((resolve, reject) => {
      socket.on("data", (chunk: Buffer) => {
        try {
          this.receive(chunk);
        } catch (error) {
          reject(error);
        }
      });
      socket.on("error", (cause) => reject(lost(cause.message, cause)));
      socket.on("close", () => reject(this.session.farewell ?? lost("the broker closed the connection")));
      this.ending.signal.addEventListener("abort", () => resolve(), { once: true });
      if (this.isEnding) resolve();
      socket.write(Buffer.concat(this.session.connected(performance.now())));
      this.lookAgain(reject);
      socket.resume(); // a login has paused it
    });
  }

  private receive(chunk: Buffer): void {
    const { fresh, late } = this.session.receive(chunk, performance.now());
    for (const message of late) this.report(leaseOver(message), message);
    if (fresh.length > 0) this.pool.succeeded();
    this.flushSoon(); // what comes again may be done already
    if (!this.isEnding || this.isAuto) this.handOut(fresh);
    else for (const message of fresh) this.session.drop(message);
    if (this.session.farewell !== undefined) throw this.session.farewell;
  }

  /** Settle what was handled, and leave in order. */
  private async finish(socket: Socket): Promise<void> {
    if (!this.isAuto) {
      for (const message of this.arrived.splice(0)) this.session.drop(message);
      await this.drained();
    }
    this.flush();
    await new Promise<void>((resolve) => {
      const late = setTimeout(resolve, LINGER_MS);
      socket.once("close", () => (clearTimeout(late), resolve()));
      socket.end();
      if (socket.destroyed) resolve();
    });
    await this.drained();
  }

  private async pause(ms: number): Promise<void> {
    if (ms <= 0 || this.isEnding) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.ending.signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
    });
  }

  // ── Time ──────────────────────────────────────────────────────────────────────────────────────

  private lookAgain(leave: (error: PenstockError) => void): void {
    clearTimeout(this.timer);
    this.lookedAt = performance.now();
    this.timer = setTimeout(() => {
      const blockedMs = performance.now() - this.lookedAt - this.lookMs;
      if (blockedMs > this.lookMs && this.session.isHolding) this.warnOfBlocking(blockedMs);
      setImmediate(() => this.look(leave)); // what has arrived is read before
    }, this.lookMs).unref();
  }

  private look(leave: (error: PenstockError) => void): void {
    if (this.socket === undefined) return;
    const { data, isDead } = this.session.tick(performance.now());
    if (data.length > 0 && this.socket.writable) this.socket.write(Buffer.concat(data));
    if (isDead) leave(lost("the broker does not answer; is its machine up, and the network between?"));
    else this.lookAgain(leave);
  }

  private warnOfBlocking(ms: number): void {
    const { visibilityMs = 30_000 } = this.subscribed;
    if (ms < visibilityMs / 2) return;
    const text = `the event loop was blocked for ${Math.round(ms)} ms, leases last ${visibilityMs} ms: messages may be handed to others`;
    this.report(new PenstockError("blocked", text));
  }

  // ── Handlers ──────────────────────────────────────────────────────────────────────────────────

  private handOut(messages: Message[]): void {
    for (const message of messages) this.arrived.push(message);
    this.pump();
    if (this.isAuto && this.arrived.length > this.prefetch) this.socket?.pause();
  }

  private pump(): void {
    if (this.isPumping) return;
    this.isPumping = true;
    let index = 0;
    const mayBegin = () => this.running < this.concurrency && (this.isAuto || !this.isEnding);
    for (; index < this.arrived.length && mayBegin(); index++) this.handle(this.arrived[index]!);
    if (index > 0) this.arrived.splice(0, index);
    this.isPumping = false;
    if (this.isAuto && this.arrived.length <= this.prefetch) this.socket?.resume();
    if (this.isDrained) this.whenDrained?.();
  }

  private handle(message: Message): void {
    this.running++;
    let result: unknown;
    try {
      result = this.onMessage(message);
    } catch (error) {
      return this.failed(message, error);
    }
    if (typeof (result as PromiseLike<unknown> | null)?.then !== "function") {
      return this.succeeded(message);
    }
    Promise.resolve(result).then(
      () => this.succeeded(message),
      (error: unknown) => this.failed(message, error),
    );
  }

  private succeeded(message: Message): void {
    this.session.succeeded(message);
    this.settled();
  }

  private failed(message: Message, error: unknown): void {
    const isGivenBack = error === GIVEN_BACK;
    const delayMs = error instanceof Retry ? error.delayMs : 0;
    const isDead = error instanceof DeadLetter;
    this.session.failed(message, isGivenBack ? "" : reasonOf(error), delayMs, isDead);
    if (!isGivenBack && !isDead && !(error instanceof Retry)) this.report(error instanceof Error ? error : new Error(String(error)), message);
    this.settled();
  }

  private settled(): void {
    this.running--;
    this.flushSoon();
    this.pump();
  }

  private flushSoon(): void {
    if (this.isFlushing) return;
    this.isFlushing = true;
    process.nextTick(() => this.flush());
  }

  private flush(): void {
    this.isFlushing = false;
    if (this.socket === undefined || !this.socket.writable) return;
    const data = this.session.dataToSend();
    if (data.length > 0) this.socket.write(data.length === 1 ? data[0]! : Buffer.concat(data));
  }

  private get isDrained(): boolean {
    return this.running === 0 && (!this.isAuto || this.arrived.length === 0);
  }

  private async drained(): Promise<void> {
    if (this.isDrained) return;
    await new Promise<void>((resolve) => (this.whenDrained = resolve));
  }

  // ── Reports ───────────────────────────────────────────────────────────────────────────────────

  private report(error: Error, message?: Message): void {
    if (this.onError === undefined) {
      const { topic, group } = this.subscribed;
      const where = message === undefined ? `${topic}, ${group}` : `${topic}[${message.offset}], ${group}`;
      process.emitWarning(`${where}: ${error.stack ?? error.message}`, "PenstockWarning");
      return;
    }
    try {
      this.onError(error, message);
    } catch (fault) {
      process.emitWarning(`onError failed: ${String(fault)}`, "PenstockWarning");
    }
  }
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.message || error.name;
}

function lost(detail: string, cause?: unknown): PenstockError {
  return new PenstockError("connection_lost", detail, { cause });
}

function leaseOver({ topic, group, leaseId }: Message): PenstockError {
  const text = "the broker handed out a message again that its handler still had: its lease was over";
  return new PenstockError("lease_lost", text, { leases: [{ topic, group, leaseId }] });
}
