/** What callers give and get. Times are milliseconds; 64-bit numbers come as decimal text. */

import type { ConnectionOptions } from "node:tls";
import type { PenstockError } from "./errors";
import type { Uint64 } from "./schema";

export type { Uint64 };

/** A node as HermesMQ's client wants it; `"host:port"` is enough. */
export interface NodeAddress {
  id?: number;
  clientAddr: string;
  peerAddr?: string;
}

/** Who we are: a user and its password or secret, or an API token. */
export type Credentials = { user: string; password: string | Uint8Array } | { token: string };

export interface ConnectOptions {
  /** Form a cluster of these nodes; they need `id` and `peerAddr`. */
  bootstrap?: boolean;
  /** How long a call may take, unless it says otherwise (10,000). */
  timeoutMs?: number;
  /** Encrypt: `true`, or options of `node:tls`, such as `ca`, `cert` and `key`. */
  tls?: boolean | ConnectionOptions;
  /** A function is asked before each connection. */
  credentials?: Credentials | (() => Credentials | Promise<Credentials>);
  /** Ends `connect` early; no effect afterwards. */
  signal?: AbortSignal;
}

export interface CallOptions {
  /** Rejects the call at once. What was sent may take effect all the same. */
  signal?: AbortSignal | undefined;
  /** Instead of the client's. */
  timeoutMs?: number | undefined;
}

export type ContentType = "raw" | "text" | "json" | "msgpack";

export interface Header {
  name: string;
  value: Buffer;
}

export type GivenHeaders =
  | Readonly<Record<string, string | Uint8Array>>
  | readonly { name: string; value: string | Uint8Array }[];

export interface ProduceItem {
  topic: string;
  body: Uint8Array | string;
  /** 0 to 7, the highest goes first (0). */
  priority?: number | undefined;
  contentType?: ContentType | number | undefined;
  /** With `seq`: the broker stores each pair once, also over restarts of this program. */
  producerId?: string | undefined;
  seq?: Uint64 | undefined;
  /** No group gets it earlier. */
  delayMs?: number | undefined;
  /** No group gets it later. */
  ttlMs?: number | undefined;
  headers?: GivenHeaders | undefined;
}

export interface ProduceOptions extends ProduceItem, CallOptions {}

/** One of both is there. */
export interface ProduceResult {
  offset?: string;
  error?: PenstockError;
}

export interface ProduceManyOptions extends CallOptions {
  /** Called with each result, in order; the returned array then stays empty. For endless sources. */
  onResult?: (result: ProduceResult, index: number) => void;
}

/** Where a group begins that does not exist yet: an offset, a time, or an end of the topic. */
export type Start = "earliest" | "latest" | Date | Uint64;

export interface GroupName {
  topic: string;
  group: string;
}

export interface PollOptions extends GroupName, CallOptions {
  /** How many at most (16; 1,024). */
  max?: number;
  /** How long they are leased (30,000). */
  visibilityMs?: number;
  /** How long to wait for the first (0). Added to `timeoutMs`. */
  waitMs?: number;
  /** `auto`: done when handed out. */
  ackMode?: "manual" | "auto";
  start?: Start;
}

export interface Lease extends GroupName {
  leaseId: string;
}

/** A message that is leased to us, to be acknowledged before the lease ends. */
export interface Message extends Lease {
  offset: string;
  priority: number;
  /** 0 raw, 1 text, 2 JSON, 3 MessagePack. */
  contentType: number;
  payload: Buffer;
  tsMs: string;
  /** How often it was handed out before. */
  redeliveries: number;
  headers: readonly Header[];
}

export interface NackOptions extends CallOptions {
  /** Not before so much time has passed. */
  delayMs?: number;
  /** Kept with a message that becomes a dead letter. */
  reason?: string;
  /** Never again: it becomes a dead letter now. */
  deadLetter?: boolean;
}

export interface SubscribeOptions extends GroupName {
  /** How many handlers run at once (as `prefetch`). */
  concurrency?: number;
  /** How many messages the broker sends ahead of acknowledgements (as `concurrency`, or 16). */
  prefetch?: number;
  /** How long they are leased (30,000). Leases of those in hand are extended at half-time. */
  visibilityMs?: number;
  /** `auto`: done when handed out, each once or, if this program dies, not at all. */
  ackMode?: "manual" | "auto";
  start?: Start;
  /** Ends the subscription, as `unsubscribe` does. */
  signal?: AbortSignal;
}

export interface ConsumeOptions extends Omit<SubscribeOptions, "concurrency"> {
  /** Told of lost connections; the subscription makes another. */
  onError?: OnError;
}

export type OnMessage = (message: Message) => unknown;

/** `message` is there if its handler failed; otherwise it is about the connection. */
export type OnError = (error: Error, message?: Message) => void;

export interface RateLimit {
  /** Messages handed out per second, over all groups; 0: no limit. */
  ratePerSec: number;
  burst?: number;
}

export interface Retention {
  maxMessages?: number;
  maxAgeMs?: number;
  maxBytes?: number;
}

export interface CreateTopicOptions extends CallOptions {
  topic: string;
  rateLimit?: RateLimit;
  retention?: Retention;
  /** Keep what every group has finished until retention takes it. */
  keep?: boolean;
}

export interface ConfigureTopicOptions extends CallOptions, Partial<RateLimit>, Retention {
  topic: string;
  keep?: boolean;
}

export interface TopicInfo {
  name: string;
  /** Another after the topic was deleted and created again. */
  incarnation: string;
  firstOffset: string;
  endOffset: string;
  messages: number;
  bytes: number;
  ratePerSec: number;
  burst: number;
  maxMessages: number;
  maxAgeMs: number;
  maxBytes: number;
  keep: boolean;
  groups: number;
  createdMs: string;
}

export interface GroupInfo {
  topic: string;
  name: string;
  /** Everything below is done. */
  position: string;
  lag: number;
  inFlight: number;
  returned: number;
  delayed: number;
  deadLetters: number;
  redeliveries: number;
  consumers: number;
  maxDeliveries: number;
  backoffMs: number;
  backoffMaxMs: number;
  reader: boolean;
  start: string;
}

export interface CreateGroupOptions extends GroupName, CallOptions {
  start?: Start;
  /** It only records the position of a reader elsewhere. */
  reader?: boolean;
}

export interface ConfigureGroupOptions extends GroupName, CallOptions {
  /** Dead-letter after so many failed deliveries; 0: never. */
  maxDeliveries?: number;
  /** Pause before the first redelivery after a nack; it doubles. */
  backoffMs?: number;
  backoffMaxMs?: number;
}

export interface Stats {
  lastApplied: string;
  currentLeader: number;
  currentTerm: string;
  lastLogIndex: string;
  isLeader: boolean;
  topics: number;
  messages: number;
  inFlight: number;
}

export interface FetchOptions extends CallOptions {
  topic: string;
  /** The first (0). */
  offset?: Uint64;
  /** One past the last (the present end). */
  endOffset?: Uint64;
}

export interface LocateOptions extends CallOptions {
  topic: string;
  /** Which offset has the first message of each time or later? */
  timesMs?: readonly Uint64[];
  /** How far do so many bytes of payload reach from an offset? */
  measures?: readonly { offset: Uint64; bytes: Uint64 }[];
}

export interface Located {
  incarnation: string;
  firstOffset: string;
  endOffset: string;
  offsets: string[];
  reaches: string[];
}

export interface ChangesOptions extends CallOptions {
  /** Filters as in MQTT; none: all topics. */
  filters?: readonly string[];
  /** The `sequence` of the answer before; without it, all topics are listed. */
  afterSequence?: Uint64;
  waitMs?: number;
  max?: number;
  /** The last name of the page before. */
  after?: string;
}

export interface Changes {
  sequence: string;
  topics: { name: string; incarnation: string; firstOffset: string; endOffset: string }[];
  more: boolean;
  /** Begin again, without `afterSequence`. */
  again: boolean;
  deleted: string[];
}

/** The public half of a key that devices sign with. */
export interface PublicKey {
  id: number;
  publicKey: Buffer;
  createdMs: string;
  /** "0": never. */
  expiresMs: string;
  /** "0": not revoked. */
  revokedMs: string;
}
