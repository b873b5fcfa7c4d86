/**
 * The protocol state of a subscription, over any number of push connections; no socket here.
 *
 * The broker pushes messages ahead of acknowledgements, up to `prefetch`, and answers no request on
 * such a connection. Acknowledgements are therefore gathered and sent together.
 *
 * **Messages in hand when a connection is lost** are given back by the broker, and handed out
 * again, perhaps to us while a handler still has them. Such a repetition is not handled a second
 * time: it only brings the lease under which the message is then acknowledged. It is recognised by
 * offset *and* content, for a topic that was deleted and created again counts from 0.
 *
 * **Leases outlive a crash of the broker.** So results since then are sent on the next connection,
 * under the leases with which the messages came. Results that were sent last on the old one may be
 * lost, too, as they are not answered; but the broker pushes no more than `prefetch` beyond what
 * was settled, so only the last ones can be missing. They are sent again. A broker that did not crash
 * has given the messages back when the connection ended, so that their old leases say nothing any
 * more: if one comes again that was handled successfully, it is acknowledged, not handled again.
 *
 * **A quiet topic, or a dead broker?** A ping goes before the subscription. A broker that answers
 * it is pinged from then on; one that refuses it is not.
 */

import { encodeRequest, type Response } from "./codec";
import { protocolError, refusal, type PenstockError } from "./errors";
import { FrameReader } from "./frames";
import { Heartbeat } from "./heartbeat";
import { messagesOf, subscribe } from "./requests";
import type { Message, SubscribeOptions } from "./types";

const REASON_MAX = 1_000; // characters of an error's text that are sent with a nack
const PING_NUMBER = 1; // the request id of all pings: no other request has one

interface Held {
  message: Message;
  leasedAt: number;
  connection: number;
}

interface Result {
  message: Message;
  leaseId: string;
  reason: string | undefined; // why it failed; none if it is done
  delayMs: number; // before it is handed out again
  isFinal: boolean; // never again
}

export interface Pushed {
  /** For handlers. */
  fresh: Message[];
  /** In hand, and handed out again on the same connection: their leases were over. */
  late: Message[];
}

export class PushSession {
  /** What the broker said before it closed, or will close. */
  farewell: PenstockError | undefined;
  private reader = new FrameReader();
  private readonly heartbeat = new Heartbeat(3_000, 4_000);
  private connection = 0;
  private isFirstPing = false; // whether the broker knows pings is not known yet
  private readonly settles: boolean;
  private readonly visibilityMs: number;
  private readonly inHand = new Map<string, Held>(); // by offset, with the present lease
  private results: Result[] = []; // to be sent
  private sent: Result[] = []; // sent last: twice as many as can be in hand, as they may be repeated
  private readonly doubtful = new Map<string, Message>(); // done; perhaps the broker does not know
  private connectedAt = 0;

  constructor(
    private readonly options: SubscribeOptions,
    private readonly prefetch: number,
  ) {
    this.settles = options.ackMode !== "auto";
    this.visibilityMs = options.visibilityMs ?? 30_000;
    subscribe(options, prefetch); // mistakes are told by who subscribes
  }

  /** A connection begins: return what is sent first. */
  connected(now: number): Buffer[] {
    this.reader = new FrameReader();
    this.farewell = undefined;
    this.connection++;
    this.isFirstPing = this.heartbeat.isKnown = true; // the first ping is answered in any case
    this.heartbeat.heard(now);
    this.heartbeat.asked(now);
    this.connectedAt = now;
    this.results.unshift(...this.sent);
    this.sent = [];
    this.doubtful.clear();
    for (const { message, reason } of this.results) {
      if (reason === undefined) this.doubtful.set(message.offset, message);
    }
    return [ping(), subscribe(this.options, this.prefetch), ...this.dataToSend()];
  }

  receive(chunk: Buffer, now: number): Pushed {
    this.heartbeat.heard(now);
    const pushed: Pushed = { fresh: [], late: [] };
    for (const response of this.reader.receive(chunk)) {
      if (response.kind === "Polled") {
        for (const message of messagesOf(response.body, this.options)) this.sort(message, now, pushed);
      } else this.note(response);
    }
    return pushed;
  }

  private note(response: Response): void {
    if (response.kind === "Ok" && response.requestId === PING_NUMBER) {
      this.isFirstPing = false;
    } else if (response.kind !== "Error") {
      this.farewell = protocolError(`${response.kind ?? "nothing"} instead of messages`);
    } else if (this.isFirstPing && response.body.code === "bad_request") {
      this.isFirstPing = this.heartbeat.isKnown = false;
    } else this.farewell = refusal(response.body);
  }

  private sort(message: Message, now: number, pushed: Pushed): void {
    if (!this.settles) {
      pushed.fresh.push(message);
      return;
    }
    if (this.isDone(message, now)) {
      this.results.push({ message, leaseId: message.leaseId, reason: undefined, delayMs: 0, isFinal: false });
      return;
    }
    const held = this.inHand.get(message.offset);
    this.inHand.set(message.offset, { message, leasedAt: now, connection: this.connection });
    if (held === undefined || !isSame(held.message, message)) pushed.fresh.push(message);
    else if (held.connection === this.connection) pushed.late.push(message);
  }

  /** Whether we have handled it, and the broker did not hear of that. */
  private isDone(message: Message, now: number): boolean {
    if (now - this.connectedAt > this.visibilityMs) this.doubtful.clear(); // they would have come
    const done = this.doubtful.get(message.offset);
    this.doubtful.delete(message.offset);
    return done !== undefined && isSame(done, message);
  }

  succeeded(message: Message): void {
    this.settle(message, undefined, 0);
  }

  failed(message: Message, reason: string, delayMs: number, isFinal = false): void {
    this.settle(message, reason.slice(0, REASON_MAX), delayMs, isFinal);
  }

  private settle(message: Message, reason: string | undefined, delayMs: number, isFinal = false): void {
    if (this.settles) this.results.push({ message, leaseId: this.letGo(message), reason, delayMs, isFinal });
  }

  /** Return the present lease of a message that is not in hand any more. */
  private letGo(message: Message): string {
    const held = this.inHand.get(message.offset);
    if (held === undefined || !isSame(held.message, message)) return message.leaseId;
    this.inHand.delete(message.offset);
    return held.message.leaseId;
  }

  /** Forget a message that no handler got: the broker gives it to others. */
  drop(message: Message): void {
    this.letGo(message);
  }

  get isHolding(): boolean {
    return this.inHand.size > 0;
  }

  /** Return what is due by now: a ping, longer leases. `isDead`: leave the connection. */
  tick(now: number): { data: Buffer[]; isDead: boolean } {
    const data = this.extensions(now);
    if (this.heartbeat.isDue(now)) data.push(ping());
    return { data, isDead: this.heartbeat.isDead(now) };
  }

  /** Extend the leases that are past their half-time, if they are of this connection. */
  private extensions(now: number): Buffer[] {
    const leaseIds: string[] = [];
    for (const held of this.inHand.values()) {
      if (held.connection !== this.connection || held.leasedAt + this.visibilityMs / 2 > now) continue;
      leaseIds.push(held.message.leaseId);
      held.leasedAt = now;
    }
    if (leaseIds.length === 0) return [];
    const { topic, group } = this.options;
    return [encodeRequest("Extend", { topic, group, leaseIds, visibilityTimeoutMs: this.visibilityMs }, 0)];
  }

  /** Return the results that were not sent yet, as requests. */
  dataToSend(): Buffer[] {
    if (this.results.length === 0) return [];
    const alike = new Map<string | undefined, Result[]>();
    for (const result of this.results) {
      const key = result.reason === undefined ? undefined : `${result.isFinal} ${result.delayMs} ${result.reason}`;
      const found = alike.get(key);
      if (found === undefined) alike.set(key, [result]);
      else found.push(result);
    }
    this.sent.push(...this.results);
    this.sent.splice(0, Math.max(0, this.sent.length - 2 * this.prefetch));
    this.results = [];
    return [...alike.values()].map((results) => this.settlement(results));
  }

  private settlement(results: Result[]): Buffer {
    const { topic, group } = this.options;
    const { reason, delayMs, isFinal } = results[0]!;
    const leaseIds = results.map((result) => result.leaseId);
    if (reason === undefined) return encodeRequest("AckMany", { topic, group, leaseIds }, 0);
    return encodeRequest("NackMany", { topic, group, leaseIds, reason, delayMs, deadLetter: isFinal }, 0);
  }
}

function ping(): Buffer {
  return encodeRequest("Ping", {}, PING_NUMBER);
}

function isSame(one: Message, other: Message): boolean {
  return one.tsMs === other.tsMs && one.payload.equals(other.payload);
}
