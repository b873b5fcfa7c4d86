/**
 * The connection of a client, or the next one: requests, answers, time, and what a loss means.
 *
 * **One connection, many calls.** Requests of one turn of the event loop leave in one write. Each
 * carries a number, with which the broker answers in any order, so that a long poll delays nothing.
 * An answer without a number comes from a broker that knows none, and belongs to the oldest call.
 *
 * **A lost connection** leaves calls that perhaps were executed. Those that may be repeated, nearly
 * all, are sent again in their old order: the broker recognises a repeated produce by producer and
 * seq. The others fail with `connection_lost`. A node that does not lead has executed nothing: its
 * calls go to the leader. The next connection is made when there is a call for it.
 *
 * **Time.** A call fails `timeoutMs` after it was made. One that waits for room in the window fails
 * when no answer came for so long: a large burst is not too late, only large. If the event loop was
 * blocked, what arrived meanwhile is read before anything is judged.
 *
 * **An idle client lets the process end**: its socket counts only while a call is open.
 */

import type { Socket } from "node:net";

import type { Pool } from "./addresses";
import { Call, type AnyAsk, type Ask } from "./call";
import { encodeRequest } from "./codec";
import { dial, type DialOptions } from "./dial";
import { asPenstockError, copyOf, isMistake, PenstockError, protocolError, refusal } from "./errors";
import { FrameReader } from "./frames";
import { Heartbeat } from "./heartbeat";
import type { ResponseName } from "./schema";
import { Window } from "./window";

const JOIN_BYTES = 64 * 1024; // what is written at once
const CONNECT_MAX_MS = 3_000; // time for a second packet, should the first get lost
const LOOK_MS = 500;
const LATE_MS = 250; // a timer that is so late was held up by the program

export class Link {
  private readonly window = new Window();
  private readonly heartbeat = new Heartbeat(1_000, 3_000);
  private readonly ending = new AbortController();
  private reader = new FrameReader();
  private socket: Socket | undefined;
  private wasConnected = false;
  private isConnecting = false;
  private isFlushing = false;
  private lastNumber = 0;
  private heardAt = 0;
  private leaving: PenstockError | undefined; // why we leave the connection
  private lastError: PenstockError | undefined; // of the connection; none after an answer
  private timer: NodeJS.Timeout | undefined;
  private nextLook = Infinity;

  constructor(
    private readonly pool: Pool,
    private readonly options: DialOptions,
    private readonly timeoutMs: number,
  ) {}

  // ── Asking ────────────────────────────────────────────────────────────────────────────────────

  ask<M extends ResponseName, R>(ask: Ask<M, R>): Promise<R> {
    if (this.ending.signal.aborted) return Promise.reject(closed());
    const signal = ask.options?.signal;
    if (signal?.aborted) return Promise.reject(signal.reason);
    const timeoutMs = ask.options?.timeoutMs ?? this.timeoutMs;
    const call = new Call(ask as unknown as AnyAsk, ++this.lastNumber, now(), timeoutMs);
    this.window.add(call);
    this.flushSoon();
    this.lookAt(call.deadline);
    return call.promise as Promise<R>;
  }

  /** Fail what is open, and end the connection. */
  close(): void {
    this.ending.abort();
    this.window.failAll(closed());
    clearTimeout(this.timer);
    this.socket?.destroy();
  }

  private get isClosed(): boolean {
    return this.ending.signal.aborted;
  }

  // ── Sending ───────────────────────────────────────────────────────────────────────────────────

  private flushSoon(): void {
    if (this.isFlushing) return;
    this.isFlushing = true;
    process.nextTick(() => this.flush());
  }

  private flush(): void {
    this.isFlushing = false;
    if (this.isClosed) return;
    if (this.socket === undefined) void this.connect();
    else this.send(this.socket);
    if (this.window.isIdle) this.socket?.unref();
  }

  private send(socket: Socket): void {
    if (!this.window.hasSent) this.heartbeat.expects(now());
    const frames: Buffer[] = [];
    let bytes = 0;
    for (let call = this.window.next(); call !== undefined; call = this.window.next()) {
      call.overdueAt = now() + this.timeoutMs / 2 + call.graceMs;
      frames.push(call.frame);
      bytes += call.frame.length;
      if (bytes >= JOIN_BYTES) {
        write(socket, frames);
        frames.length = bytes = 0;
      }
    }
    if (bytes > 0) write(socket, frames);
    if (this.window.hasSent) socket.ref();
  }

  // ── Receiving ─────────────────────────────────────────────────────────────────────────────────

  private receive(chunk: Buffer): void {
    this.heardAt = now();
    this.heartbeat.heard(this.heardAt);
    let elsewhere: PenstockError | undefined;
    for (const response of this.reader.receive(chunk)) {
      if (response.requestId > 0) this.heartbeat.isKnown = true; // it answers out of order
      else if (!this.window.hasSent) throw protocolError("an answer to nothing");
      const call = this.window.answered(response.requestId);
      if (call === undefined || call.isDone) continue;
      const error = response.kind === "Error" ? refusal(response.body) : undefined;
      if (error !== undefined && call.goesElsewhere(error)) {
        elsewhere = error;
        call.isRepeated ||= error.code === "no_quorum";
        this.window.add(call);
      } else {
        this.lastError = undefined;
        call.answered(response);
      }
    }
    if (elsewhere !== undefined) throw elsewhere;
    this.pool.succeeded();
    this.flushSoon();
  }

  // ── Connecting ────────────────────────────────────────────────────────────────────────────────

  private async connect(): Promise<void> {
    if (this.isConnecting || this.window.isIdle) return;
    this.isConnecting = true;
    while (this.socket === undefined && !this.window.isIdle && !this.isClosed) {
      const limitMs = Math.min(this.timeoutMs / 2, CONNECT_MAX_MS);
      try {
        this.connected(await dial(this.pool.address, this.options, limitMs, this.ending.signal));
      } catch (error) {
        await this.pause(this.disconnected(asPenstockError(error)));
      }
    }
    this.isConnecting = false;
    this.flushSoon();
  }

  private connected(socket: Socket): void {
    this.reader = new FrameReader();
    this.heartbeat.heard(now());
    this.heartbeat.isKnown = false;
    this.socket = socket;
    this.wasConnected = true;
    socket.on("data", (chunk: Buffer) => {
      try {
        this.receive(chunk);
      } catch (error) {
        this.leave(asPenstockError(error));
      }
    });
    socket.on("error", (cause) => (this.leaving ??= lost(cause.message, cause)));
    socket.on("close", () => void this.ended());
    socket.resume(); // a login has paused it
    if (this.isClosed) socket.destroy();
  }

  private leave(error: PenstockError): void {
    this.leaving ??= error;
    this.socket?.destroy();
  }

  private async ended(): Promise<void> {
    const error = this.leaving ?? lost("the broker closed the connection");
    this.socket = this.leaving = undefined;
    this.isConnecting = true; // not before the pause is over
    await this.pause(this.disconnected(error));
    this.isConnecting = false;
    this.flushSoon();
  }

  /** Sort out what was under way; return the pause before the next attempt. */
  private disconnected(error: PenstockError): number {
    this.lastError = error;
    this.window.lost();
    const isHopeless = isMistake(error) && (error.code !== "tls" || !this.wasConnected);
    if (isHopeless) this.window.failAll(error);
    return this.pool.failed(error);
  }

  private async pause(ms: number): Promise<void> {
    if (ms <= 0 || this.window.isIdle || this.isClosed) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(done, ms);
      const { signal } = this.ending;
      signal.addEventListener("abort", done);
      function done(): void {
        clearTimeout(timer);
        signal.removeEventListener("abort", done);
        resolve();
      }
    });
  }

  // ── Time ──────────────────────────────────────────────────────────────────────────────────────

  /** Look at the clock by then; the timer alone does not keep the process alive. */
  private lookAt(deadline: number): void {
    if (this.nextLook <= deadline) return;
    const at = Math.min(deadline, now() + LOOK_MS);
    if (this.nextLook <= at) return;
    clearTimeout(this.timer);
    this.nextLook = at;
    this.timer = setTimeout(() => this.look(), Math.max(1, at - now())).unref();
  }

  private look(): void {
    const isLate = now() - this.nextLook > LATE_MS;
    this.nextLook = Infinity;
    if (isLate) setImmediate(() => this.judge()); // sockets are read before
    else this.judge();
  }

  private judge(): void {
    if (this.isClosed) return;
    const at = now();
    const found = this.window.expire(at, this.heardAt, (call) => this.tooLate(call));
    if (this.socket !== undefined && found.unanswered > 0) this.beat(this.socket, at, found.unanswered);
    if (found.isOverdue && this.heardAt + this.timeoutMs / 2 <= at) this.leave(silent());
    if (!this.window.isIdle) this.lookAt(Math.min(found.nearest, at + LOOK_MS));
    this.flushSoon();
  }

  private beat(socket: Socket, at: number, unanswered: number): void {
    if (this.heartbeat.isDue(at)) socket.write(encodeRequest("Ping", {}, ++this.lastNumber));
    if (this.heartbeat.isDead(at, unanswered)) this.leave(silent());
  }

  private tooLate(call: Call): PenstockError {
    if (this.lastError !== undefined) return copyOf(this.lastError);
    const advice = "is the broker overloaded, or the network down? The outcome is unknown";
    return new PenstockError("timeout", `no answer for ${call.timeoutMs + call.graceMs} ms; ${advice}`);
  }
}

function write(socket: Socket, frames: Buffer[]): void {
  socket.write(frames.length === 1 ? frames[0]! : Buffer.concat(frames));
}

function now(): number {
  return performance.now();
}

function closed(): PenstockError {
  return new PenstockError("closed", "the client is closed");
}

function lost(detail: string, cause?: unknown): PenstockError {
  return new PenstockError("connection_lost", detail, { cause });
}

function silent(): PenstockError {
  return lost("the broker does not answer; is its machine up, and the network between?");
}
