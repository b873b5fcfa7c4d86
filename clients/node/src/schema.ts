/**
 * The messages of the queue protocol, as tables: what `codec.ts` needs to read and write them.
 *
 * A field is its number and its type. `test/schema.test.mjs` compares these tables with
 * `queue.proto`, so that neither can change alone. Staged commits and scans, which are for Spark,
 * are left out.
 *
 * Types are those of Protocol Buffers, with two for its uint64: `uint64` is handed out as decimal
 * text, since a JavaScript number is exact up to 2^53 only, and `count` as a number, for what never
 * gets so large. A message is named; `*` means repeated, `?` optional with presence.
 */

export type Fields = Readonly<Record<string, readonly [number: number, type: string]>>;

const produceFields = {
  topic: [1, "string"],
  priority: [2, "uint32"],
  contentType: [3, "uint32"],
  producerId: [5, "string"],
  seq: [6, "uint64"],
  delayMs: [7, "uint64"],
  ttlMs: [8, "uint64"],
  headers: [9, "Header*"],
} as const;

const leaseFields = { topic: [1, "string"], group: [2, "string"] } as const;

export const MESSAGES = {
  Header: { name: [1, "string"], value: [2, "bytes"] },
  Produce: { ...produceFields, payload: [4, "bytes"] },
  ProduceMany: { ...produceFields, payloads: [4, "bytes*"] },
  Poll: {
    ...leaseFields,
    max: [3, "uint32"],
    visibilityTimeoutMs: [4, "uint64"],
    ackMode: [5, "string"],
    waitMs: [6, "uint64"],
    start: [7, "enum"],
    startValue: [8, "uint64"],
  },
  Subscribe: {
    ...leaseFields,
    prefetch: [3, "uint32"],
    visibilityTimeoutMs: [4, "uint64"],
    ackMode: [5, "string"],
    start: [7, "enum"],
    startValue: [8, "uint64"],
  },
  Ack: { ...leaseFields, leaseId: [3, "uint64"] },
  Nack: { ...leaseFields, leaseId: [3, "uint64"], delayMs: [4, "uint64"], reason: [5, "string"], deadLetter: [6, "bool"] },
  AckMany: { ...leaseFields, leaseIds: [3, "uint64*"] },
  NackMany: { ...leaseFields, leaseIds: [3, "uint64*"], delayMs: [4, "uint64"], reason: [5, "string"], deadLetter: [6, "bool"] },
  Extend: { ...leaseFields, leaseIds: [3, "uint64*"], visibilityTimeoutMs: [4, "uint64"] },
  Commit: { ...leaseFields, offset: [3, "uint64"] },
  CreateTopic: { topic: [1, "string"] },
  DeleteTopic: { topic: [1, "string"] },
  Stats: {},
  Ping: {},
  Authenticate: {
    user: [1, "string"],
    secret: [2, "bytes"],
    token: [3, "string"],
    mechanism: [4, "string"],
    data: [5, "bytes"],
  },
  Bootstrap: { nodes: [1, "Node*"] },
  Node: { id: [1, "uint64"], peerAddr: [2, "string"] },
  SetRateLimit: { topic: [1, "string"], ratePerSec: [2, "double"], burst: [3, "uint32"] },
  SetRetention: {
    topic: [1, "string"],
    maxMessages: [2, "uint64"],
    maxAgeMs: [3, "uint64"],
    maxBytes: [4, "uint64"],
  },
  ConfigureTopic: {
    topic: [1, "string"],
    ratePerSec: [2, "double?"],
    burst: [3, "uint32?"],
    maxMessages: [4, "uint64?"],
    maxAgeMs: [5, "uint64?"],
    maxBytes: [6, "uint64?"],
    keep: [7, "bool?"],
  },
  CreateGroup: {
    ...leaseFields,
    start: [3, "enum"],
    startValue: [4, "uint64"],
    seek: [5, "bool"],
    reader: [6, "bool"],
  },
  DeleteGroup: leaseFields,
  ConfigureGroup: {
    ...leaseFields,
    maxDeliveries: [3, "uint32?"],
    backoffMs: [4, "uint64?"],
    backoffMaxMs: [5, "uint64?"],
  },
  Redrive: { ...leaseFields, max: [3, "uint32"] },
  Fetch: {
    topic: [1, "string"],
    offset: [2, "uint64"],
    endOffset: [3, "uint64"],
    maxMessages: [4, "uint32"],
    maxBytes: [5, "uint64"],
    columns: [6, "uint32"],
  },
  Locate: { topic: [1, "string"], timesMs: [2, "uint64*"], measures: [3, "Measure*"] },
  Measure: { offset: [1, "uint64"], bytes: [2, "uint64"] },
  Changes: {
    filters: [1, "string*"],
    afterSequence: [2, "uint64"],
    waitMs: [3, "uint64"],
    max: [4, "uint32"],
    after: [5, "string"],
  },
  ListKeys: { after: [1, "uint32"], max: [2, "uint32"] },
  ListTopics: { prefix: [1, "string"], after: [2, "string"], max: [3, "uint32"], name: [4, "string"] },
  ListGroups: {
    topic: [1, "string"],
    max: [2, "uint32"],
    afterTopic: [3, "string"],
    afterGroup: [4, "string"],
  },

  Ok: { lapsed: [1, "uint64*"] },
  Produced: { offset: [1, "uint64"] },
  ProducedMany: { stretches: [1, "Stretch*"], refusals: [2, "Refusal*"] },
  Stretch: { offset: [1, "uint64"], count: [2, "count"] },
  Refusal: { index: [1, "uint32"], error: [2, "Error"] },
  Delivered: {
    leaseId: [1, "uint64"],
    offset: [2, "uint64"],
    priority: [3, "uint32"],
    contentType: [4, "uint32"],
    payload: [5, "bytes"],
    tsMs: [6, "uint64"],
    redeliveries: [7, "uint32"],
    headers: [8, "Header*"],
  },
  Polled: { items: [1, "Delivered*"] },
  Error: {
    code: [1, "string"],
    message: [2, "string"],
    leaderAddr: [3, "string"],
    retryAfterMs: [4, "count"],
  },
  StatsResult: {
    lastApplied: [1, "uint64"],
    currentLeader: [2, "count"],
    currentTerm: [3, "uint64"],
    lastLogIndex: [4, "uint64"],
    isLeader: [5, "bool"],
    topics: [6, "count"],
    messages: [7, "count"],
    inFlight: [8, "count"],
  },
  Fetched: {
    incarnation: [1, "uint64"],
    firstOffset: [2, "uint64"],
    endOffset: [3, "uint64"],
    nextOffset: [4, "uint64"],
    slices: [5, "Slice*"],
  },
  Slice: {
    firstOffset: [1, "uint64"],
    count: [2, "uint32"],
    baseSequence: [3, "uint64"],
    timeMs: [4, "count"],
    bounds: [5, "bytes"],
    payloads: [6, "bytes"],
    runStarts: [7, "bytes"],
    runPositions: [8, "bytes"],
    runTimes: [9, "bytes"],
    runFlags: [10, "bytes"],
    runTypes: [11, "bytes"],
    extras: [12, "Extra*"],
    producers: [13, "ProducerRun*"],
  },
  Extra: {
    number: [1, "uint32"],
    headers: [2, "Header*"],
    signatureVersion: [3, "uint32"],
    keyId: [4, "uint32"],
    signature: [5, "bytes"],
    signedMs: [6, "uint64"],
    nonce: [7, "bytes"],
    dueMs: [8, "uint64"],
    expiresMs: [9, "uint64"],
  },
  ProducerRun: { number: [1, "uint32"], count: [2, "uint32"], producerId: [3, "string"], seq: [4, "uint64"] },
  Located: {
    incarnation: [1, "uint64"],
    firstOffset: [2, "uint64"],
    endOffset: [3, "uint64"],
    offsets: [4, "uint64*"],
    reaches: [5, "uint64*"],
  },
  Changed: {
    sequence: [1, "uint64"],
    topics: [2, "Topic*"],
    more: [3, "bool"],
    again: [4, "bool"],
    deleted: [5, "string*"],
  },
  Keys: { keys: [1, "Key*"], more: [2, "bool"] },
  Key: {
    id: [1, "uint32"],
    publicKey: [2, "bytes"],
    createdMs: [5, "uint64"],
    expiresMs: [6, "uint64"],
    revokedMs: [7, "uint64"],
  },
  Topics: { topics: [1, "Topic*"], more: [2, "bool"] },
  Topic: {
    name: [1, "string"],
    incarnation: [2, "uint64"],
    firstOffset: [3, "uint64"],
    endOffset: [4, "uint64"],
    messages: [5, "count"],
    bytes: [6, "count"],
    ratePerSec: [7, "double"],
    burst: [8, "uint32"],
    maxMessages: [9, "count"],
    maxAgeMs: [10, "count"],
    maxBytes: [11, "count"],
    keep: [12, "bool"],
    groups: [13, "uint32"],
    createdMs: [14, "uint64"],
  },
  Groups: { groups: [1, "Group*"], more: [2, "bool"] },
  Group: {
    topic: [1, "string"],
    name: [2, "string"],
    position: [3, "uint64"],
    lag: [4, "count"],
    inFlight: [5, "count"],
    returned: [6, "count"],
    delayed: [7, "count"],
    deadLetters: [8, "count"],
    redeliveries: [9, "count"],
    consumers: [10, "uint32"],
    maxDeliveries: [11, "uint32"],
    backoffMs: [12, "count"],
    backoffMaxMs: [13, "count"],
    reader: [14, "bool"],
    start: [15, "uint64"],
  },
  Redriven: { count: [1, "count"] },
} as const satisfies Record<string, Fields>;

export type MessageName = keyof typeof MESSAGES;

/** Which field of `Request` holds a message; its `request_id` is 15. */
export const REQUESTS = {
  Produce: 1,
  Poll: 2,
  Ack: 3,
  Nack: 4,
  Commit: 5,
  CreateTopic: 6,
  DeleteTopic: 7,
  Stats: 8,
  Bootstrap: 9,
  SetRateLimit: 10,
  SetRetention: 11,
  Subscribe: 12,
  ProduceMany: 16,
  AckMany: 17,
  NackMany: 18,
  Extend: 19,
  Fetch: 20,
  ListTopics: 21,
  ListGroups: 22,
  CreateGroup: 23,
  DeleteGroup: 24,
  ConfigureTopic: 25,
  ConfigureGroup: 26,
  Redrive: 27,
  Locate: 28,
  Changes: 29,
  ListKeys: 30,
  Ping: 36,
  Authenticate: 37,
} as const satisfies Partial<Record<MessageName, number>>;

/** Which field of `Response` holds a message; its `request_id` is 15. */
export const RESPONSES = {
  Produced: 1,
  Polled: 2,
  Ok: 3,
  Error: 4,
  StatsResult: 5,
  ProducedMany: 16,
  Fetched: 17,
  Topics: 18,
  Groups: 19,
  Redriven: 20,
  Located: 21,
  Changed: 22,
  Keys: 23,
} as const satisfies Partial<Record<MessageName, number>>;

export const REQUEST_ID = 15;

export type RequestName = keyof typeof REQUESTS;
export type ResponseName = keyof typeof RESPONSES;

/** A uint64 as callers may give it; text is decimal. */
export type Uint64 = string | number | bigint;

interface Scalars {
  string: string;
  bytes: Uint8Array;
  uint32: number;
  enum: number;
  uint64: Uint64;
  count: number;
  bool: boolean;
  double: number;
}

interface DecodedScalars extends Omit<Scalars, "uint64" | "bytes"> {
  uint64: string;
  bytes: Buffer;
}

type Value<T, S> = T extends `${infer Item}*`
  ? Value<Item, S>[]
  : T extends `${infer Item}?`
    ? Value<Item, S>
    : T extends keyof S
      ? S[T]
      : T extends MessageName
        ? { -readonly [F in keyof (typeof MESSAGES)[T]]: Value<TypeOf<T, F>, S> }
        : never;

type TypeOf<M extends MessageName, F extends keyof (typeof MESSAGES)[M]> =
  (typeof MESSAGES)[M][F] extends readonly [number, infer T] ? T : never;

type Loose<T> = { [F in keyof T]?: T[F] | undefined };

/** A message to be written: a field that is absent has its default. */
export type Outgoing<M extends MessageName> = Loose<Value<M, Scalars>>;

/** A message that was read: every field is there. */
export type Incoming<M extends MessageName> = Value<M, DecodedScalars>;
