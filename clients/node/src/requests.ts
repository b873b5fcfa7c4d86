/** Every request as an `Ask`: what is written, which answer is expected, what is made of it. */

import type { Ask } from "./call";
import * as check from "./checks";
import { encodeRequest } from "./codec";
import { PenstockError, refusal } from "./errors";
import type { Incoming, Outgoing, RequestName, ResponseName } from "./schema";
import type {
  CallOptions,
  ConfigureGroupOptions,
  ConfigureTopicOptions,
  GroupName,
  Lease,
  Message,
  PollOptions,
  ProduceResult,
  Start,
  SubscribeOptions,
} from "./types";

const LEASES_MAX = 16_384; // in one request

/** A request whose answer is handed on as it is. */
export function plain<M extends RequestName, A extends ResponseName>(
  request: M,
  message: Outgoing<M>,
  expects: A,
  options: CallOptions | undefined,
): Ask<A, Incoming<A>> {
  return read(request, message, expects, options, (answer) => answer);
}

export function read<M extends RequestName, A extends ResponseName, R>(
  request: M,
  message: Outgoing<M>,
  expects: A,
  options: CallOptions | undefined,
  reading: (answer: Incoming<A>, isRepeated: boolean) => R,
): Ask<A, R> {
  return {
    encode: (number) => encodeRequest(request, message, number),
    expects,
    read: reading as Ask<A, R>["read"],
    options,
  };
}

/** A request that is done when it is answered. */
export function done<M extends RequestName>(
  request: M,
  message: Outgoing<M>,
  options: CallOptions | undefined,
): Ask<"Ok", void> {
  return read(request, message, "Ok", options, () => undefined);
}

// ── Producing ───────────────────────────────────────────────────────────────────────────────────

export function produce(message: Outgoing<"Produce">, options: CallOptions): Ask<"Produced", string> {
  return read("Produce", message, "Produced", options, (answer) => answer.offset);
}

export function produceMany(
  message: Outgoing<"ProduceMany">,
  options: CallOptions | undefined,
): Ask<"ProducedMany", ProduceResult[]> {
  const count = message.payloads!.length;
  return read("ProduceMany", message, "ProducedMany", options, (answer) => results(answer, count));
}

/** Assign offsets: stretches cover the messages that were not refused, in their order. */
function results(answer: Incoming<"ProducedMany">, count: number): ProduceResult[] {
  const refused = new Map(answer.refusals.map((one) => [one.index, one.error]));
  const found: ProduceResult[] = [];
  for (const stretch of answer.stretches) {
    const first = Number(stretch.offset); // offsets count from 0: 2^53 are never reached
    for (let offset = first; offset < first + stretch.count && found.length < count; offset++) {
      addRefused(found, refused);
      found.push({ offset: String(offset) });
    }
  }
  addRefused(found, refused);
  return found;
}

function addRefused(found: ProduceResult[], refused: Map<number, Incoming<"Error">>): void {
  if (refused.size === 0) return;
  for (let error = refused.get(found.length); error; error = refused.get(found.length)) {
    found.push({ error: refusal(error) });
  }
}

// ── Consuming ───────────────────────────────────────────────────────────────────────────────────

export function poll(options: PollOptions): Ask<"Polled", Message[]> {
  const waitMs = check.milliseconds("waitMs", options.waitMs ?? 0);
  const message = { ...leasing(options), max: check.uint32("max", options.max ?? 16, 1), waitMs };
  const ask = read("Poll", message, "Polled", options, (answer) => messagesOf(answer, options));
  return { ...ask, repeats: message.ackMode === "manual", graceMs: waitMs };
}

export function subscribe(options: SubscribeOptions, prefetch: number): Buffer {
  return encodeRequest("Subscribe", { ...leasing(options), prefetch }, 0);
}

function leasing(options: PollOptions | SubscribeOptions) {
  return {
    topic: check.name("topic", options.topic),
    group: check.name("group", options.group),
    visibilityTimeoutMs: check.milliseconds("visibilityMs", options.visibilityMs ?? 30_000, 1),
    ackMode: check.ackMode(options.ackMode ?? "manual"),
    ...check.start(options.start ?? "earliest"),
  };
}

export function messagesOf(answer: Incoming<"Polled">, { topic, group }: GroupName): Message[] {
  return answer.items.map((item) => messageOf(item, topic, group));
}

function messageOf(item: Incoming<"Delivered">, topic: string, group: string): Message {
  return {
    topic,
    group,
    leaseId: item.leaseId,
    offset: item.offset,
    priority: item.priority,
    contentType: item.contentType,
    payload: item.payload,
    tsMs: item.tsMs,
    redeliveries: item.redeliveries,
    headers: item.headers,
  };
}

/** Leases by topic and group, as many in each request as the broker takes. */
export function byGroup(leases: Lease | readonly Lease[]): (GroupName & { leaseIds: string[] })[] {
  const groups = new Map<string, GroupName & { leaseIds: string[] }>();
  for (const { topic, group, leaseId } of Array.isArray(leases) ? leases : [leases]) {
    const key = JSON.stringify([topic, group]);
    if (!groups.has(key)) groups.set(key, { ...named({ topic, group }), leaseIds: [] });
    groups.get(key)!.leaseIds.push(String(check.uint64("leaseId", leaseId)));
  }
  return [...groups.values()].flatMap(inParts);
}

function inParts({ topic, group, leaseIds }: GroupName & { leaseIds: string[] }) {
  const parts = [];
  for (let first = 0; first < leaseIds.length; first += LEASES_MAX) {
    parts.push({ topic, group, leaseIds: leaseIds.slice(first, first + LEASES_MAX) });
  }
  return parts;
}

/** Read which leases were over. After a repetition they tell nothing: the first may have settled them. */
export function lapsed(group: GroupName): (answer: Incoming<"Ok">, isRepeated: boolean) => Lease[] {
  return ({ lapsed: over }, isRepeated) =>
    isRepeated ? [] : over.map((leaseId) => ({ topic: group.topic, group: group.group, leaseId }));
}

export function leaseLost(leases: Lease[]): PenstockError {
  const these = leases.length > 1 ? `${leases.length} leases are` : "the lease is";
  const message = `${these} over: the time ran out, or the job was settled before; lease for longer, or extend in time`;
  return new PenstockError("lease_lost", message, { leases });
}

// ── Topics and groups ───────────────────────────────────────────────────────────────────────────

export function configureTopic(options: ConfigureTopicOptions): Ask<"Ok", void> {
  const message: Outgoing<"ConfigureTopic"> = {
    topic: check.name("topic", options.topic),
    ratePerSec: check.optional(options.ratePerSec, (value) => check.rate("ratePerSec", value)),
    burst: check.optional(options.burst, (value) => check.uint32("burst", value)),
    maxMessages: check.limit("maxMessages", options.maxMessages),
    maxAgeMs: check.limit("maxAgeMs", options.maxAgeMs),
    maxBytes: check.limit("maxBytes", options.maxBytes),
    keep: options.keep,
  };
  return done("ConfigureTopic", message, options);
}

export function createGroup(
  options: GroupName & CallOptions & { start?: Start; reader?: boolean },
  seek: boolean,
): Ask<"Ok", void> {
  const start = check.start(options.start ?? "earliest");
  const message = { ...named(options), ...start, seek, reader: options.reader ?? false };
  return done("CreateGroup", message, options);
}

export function configureGroup(options: ConfigureGroupOptions): Ask<"Ok", void> {
  const { maxDeliveries, backoffMs, backoffMaxMs } = options;
  const message = {
    ...named(options),
    maxDeliveries: check.optional(maxDeliveries, (value) => check.uint32("maxDeliveries", value)),
    backoffMs: check.optional(backoffMs, (value) => check.milliseconds("backoffMs", value)),
    backoffMaxMs: check.optional(backoffMaxMs, (value) => check.milliseconds("backoffMaxMs", value)),
  };
  return done("ConfigureGroup", message, options);
}

export function named({ topic, group }: GroupName): GroupName {
  return { topic: check.name("topic", topic), group: check.name("group", group) };
}
