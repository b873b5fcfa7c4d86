/**
 * The open calls of a client: those that were sent on this connection, and those that wait.
 *
 * No more than 1,024 requests or 8 MiB are unanswered; the broker reads no further than that. A
 * call that has timed out or was aborted keeps its place until its answer comes, so that an answer
 * without a number finds its call.
 */

import type { Call } from "./call";
import { copyOf, PenstockError } from "./errors";

const CALLS_MAX = 1_024;
const BYTES_MAX = 8 * 1024 * 1024;

/** What a look at the clock has found. */
export interface Findings {
  /** Bytes that were sent and are not answered. */
  unanswered: number;
  /** An answer should have come by now. */
  isOverdue: boolean;
  /** When the next call will be too late. */
  nearest: number;
}

export class Window {
  private readonly sent = new Map<number, Call>();
  private sentBytes = 0;
  private waiting: Call[] = [];
  private first = 0; // index of the first that waits

  get isIdle(): boolean {
    return this.sent.size === 0 && this.first === this.waiting.length;
  }

  get hasSent(): boolean {
    return this.sent.size > 0;
  }

  add(call: Call): void {
    this.waiting.push(call);
  }

  /** Take the call to be sent next, if there is room for it. */
  next(): Call | undefined {
    while (this.first < this.waiting.length) {
      const call = this.waiting[this.first]!;
      if (!call.isDone && !this.hasRoom(call)) return undefined;
      this.first++;
      if (call.isDone) continue;
      this.sent.set(call.number, call);
      this.sentBytes += call.frame.length;
      return call;
    }
    if (this.first > 0) this.waiting = [];
    this.first = 0;
    return undefined;
  }

  private hasRoom(call: Call): boolean {
    if (this.sent.size === 0) return true;
    return this.sent.size < CALLS_MAX && this.sentBytes + call.frame.length <= BYTES_MAX;
  }

  /** The call that an answer belongs to; without a number the oldest. */
  answered(number: number): Call | undefined {
    const key = number > 0 ? number : this.sent.keys().next().value;
    const call = key === undefined ? undefined : this.sent.get(key);
    if (call !== undefined) {
      this.sent.delete(call.number);
      this.sentBytes -= call.frame.length;
    }
    return call;
  }

  /** The connection is gone: what may be repeated waits again, in the old order. */
  lost(): void {
    for (const call of this.sent.values()) {
      if (call.isDone) continue;
      if (call.repeats) {
        call.isRepeated = true;
        this.waiting.push(call);
      } else call.fail(lostForGood());
    }
    this.waiting = this.waiting.slice(this.first).sort((a, b) => a.number - b.number);
    this.first = 0;
    this.sent.clear();
    this.sentBytes = 0;
  }

  /** Fail the calls whose time is over. Those that wait have time while answers come. */
  expire(now: number, heardAt: number, tooLate: (call: Call) => PenstockError): Findings {
    const found: Findings = { unanswered: 0, isOverdue: false, nearest: Infinity };
    const isFull = this.sent.size > 0;
    for (const call of this.sent.values()) {
      if (call.isDone) continue;
      if (call.deadline <= now) call.fail(tooLate(call));
      else {
        found.unanswered += call.frame.length;
        found.nearest = Math.min(found.nearest, call.deadline);
      }
      found.isOverdue ||= call.overdueAt <= now;
    }
    this.waiting = this.waiting.slice(this.first).filter((call) => !call.isDone);
    this.first = 0;
    for (const call of this.waiting) {
      const deadline = isFull ? Math.max(call.deadline, heardAt + call.timeoutMs) : call.deadline;
      if (deadline <= now) call.fail(tooLate(call));
      else found.nearest = Math.min(found.nearest, deadline);
    }
    return found;
  }

  failAll(error: PenstockError): void {
    for (const call of [...this.sent.values(), ...this.waiting.slice(this.first)]) {
      if (!call.isDone) call.fail(copyOf(error));
    }
    this.sent.clear();
    this.sentBytes = 0;
    this.waiting = [];
    this.first = 0;
  }
}

function lostForGood(): PenstockError {
  return new PenstockError(
    "connection_lost",
    "the connection was lost before the answer; the outcome is unknown: check before you repeat it",
  );
}
