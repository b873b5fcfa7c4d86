/** The client: every operation of the protocol as a method. */

import type { Link } from "./link";
import * as check from "./checks";
import { FetchedRecord, Slice } from "./columns";
import { consume } from "./consume";
import { badArgument, PenstockError } from "./errors";
import { Producer } from "./producer";
import { Batches, type Items } from "./producing";
import * as requests from "./requests";
import type { Incoming, ResponseName } from "./schema";
import { Subscription, type PushSettings } from "./subscription";
import type {
  CallOptions,
  Changes,
  ChangesOptions,
  ConfigureGroupOptions,
  ConfigureTopicOptions,
  ConsumeOptions,
  CreateGroupOptions,
  CreateTopicOptions,
  FetchOptions,
  GroupInfo,
  GroupName,
  Lease,
  Located,
  LocateOptions,
  Message,
  NackOptions,
  NodeAddress,
  OnError,
  OnMessage,
  PollOptions,
  ProduceManyOptions,
  ProduceOptions,
  ProduceResult,
  PublicKey,
  RateLimit,
  Retention,
  Start,
  Stats,
  SubscribeOptions,
  TopicInfo,
  Uint64,
} from "./types";
import type { Ask } from "./call";

const FETCH_MESSAGES = 65_536;
const FETCH_BYTES = 4 * 1024 * 1024; // of one answer, unless a single message is larger
const CLOSE_MS = 1_800; // for handlers that run; with what follows, less than two seconds

/**
 * A client of work queues; made by `connect`.
 *
 * Every method takes `signal` and `timeoutMs`, and every call is repeated over new connections
 * until its time is over. Any number of calls may be open.
 */
export class Client {
  private readonly producer = new Producer();
  private readonly subscriptions = new Set<Subscription>();

  /** @internal */
  constructor(
    private readonly link: Link,
    private readonly nodes: readonly (NodeAddress | string)[],
    private readonly push: PushSettings,
  ) {}

  private async ask<M extends ResponseName, R>(ask: Ask<M, R>): Promise<R> {
    return this.link.ask(ask);
  }

  // ── Producing ─────────────────────────────────────────────────────────────────────────────────

  /** Store a message once; return its offset when the broker's disk has it. */
  async produce(options: ProduceOptions): Promise<string> {
    return this.link.ask(requests.produce(this.producer.numbered(options), options));
  }

  /**
   * Store many messages; return for each its offset or its error, in order.
   *
   * An iterable, or an async one, is read only as fast as the broker stores.
   */
  async produceMany(items: Items, options: ProduceManyOptions = {}): Promise<ProduceResult[]> {
    return new Batches(this.link, this.producer, options).takeAll(items);
  }

  // ── Consuming ─────────────────────────────────────────────────────────────────────────────────

  /** Lease messages for a group; wait up to `waitMs` for the first. */
  async poll(options: PollOptions): Promise<Message[]> {
    return this.ask(requests.poll(options));
  }

  /**
   * Have messages pushed to a handler. It acknowledges by returning, and gives back by throwing.
   *
   * Returns at once; connections are made again for ever. `onError` is told of failures; without
   * it they are process warnings.
   */
  subscribe(options: SubscribeOptions, onMessage: OnMessage, onError?: OnError): Subscription {
    if (typeof onMessage !== "function") throw badArgument("subscribe needs a function for messages");
    const made = new Subscription(this.push, options, onMessage, onError);
    this.subscriptions.add(made);
    made.wait().catch(() => undefined).finally(() => this.subscriptions.delete(made));
    return made;
  }

  /**
   * Iterate over messages. Each is acknowledged when the loop asks for the next one, and given
   * back if the loop is left by `break` or an error.
   */
  consume(options: ConsumeOptions): AsyncIterableIterator<Message> {
    const { onError, ...rest } = options;
    const settings = { prefetch: 16, ...rest, concurrency: 1 };
    return consume((onMessage) => this.subscribe(settings, onMessage, onError));
  }

  /** Mark leased messages as done. Fails with `lease_lost` if others have, or had, some of them. */
  async ack(leases: Lease | readonly Lease[], options?: CallOptions): Promise<void> {
    await this.settle(leases, (group) => {
      if (group.leaseIds.length > 1) return requests.read("AckMany", group, "Ok", options, requests.lapsed(group));
      const { topic, leaseIds } = group;
      const one = { topic, group: group.group, leaseId: leaseIds[0]! };
      return requests.read("Ack", one, "Ok", options, requests.lapsed(group));
    });
  }

  /** Give leased messages back, to be handed out again, not before `delayMs`, or never. */
  async nack(leases: Lease | readonly Lease[], options: NackOptions = {}): Promise<void> {
    const { reason = "", deadLetter = false } = options;
    const delayMs = check.milliseconds("delayMs", options.delayMs ?? 0);
    await this.settle(leases, (group) => {
      const message = { ...group, delayMs, reason, deadLetter };
      return requests.read("NackMany", message, "Ok", options, requests.lapsed(group));
    });
  }

  /** Lease messages for `visibilityMs` from now. Fails with `lease_lost` if it is too late. */
  async extend(leases: Lease | readonly Lease[], options: CallOptions & { visibilityMs: number }): Promise<void> {
    const visibilityTimeoutMs = check.milliseconds("visibilityMs", options.visibilityMs, 1);
    await this.settle(leases, (group) => {
      const message = { ...group, visibilityTimeoutMs };
      return requests.read("Extend", message, "Ok", options, requests.lapsed(group));
    });
  }

  private async settle(
    leases: Lease | readonly Lease[],
    make: (group: GroupName & { leaseIds: string[] }) => Ask<"Ok", Lease[]>,
  ): Promise<void> {
    const asked = requests.byGroup(leases).map((group) => this.ask(make(group)));
    const lost = (await Promise.all(asked)).flat();
    if (lost.length > 0) throw requests.leaseLost(lost);
  }

  /** Mark everything below `offset` as done for a group. */
  async commit(options: GroupName & CallOptions & { offset: Uint64 }): Promise<void> {
    const message = { ...requests.named(options), offset: check.uint64("offset", options.offset) };
    await this.ask(requests.done("Commit", message, options));
  }

  // ── Topics ────────────────────────────────────────────────────────────────────────────────────

  /** Create a topic with its settings, in one step; change those of one that exists. */
  async createTopic(options: CreateTopicOptions): Promise<void> {
    const { topic, rateLimit, retention, keep, signal, timeoutMs } = options;
    if (rateLimit === undefined && retention === undefined && keep === undefined) {
      return this.ask(requests.done("CreateTopic", { topic: check.name("topic", topic) }, options));
    }
    const settings = { ...rateLimit, ...retention, ...(keep === undefined ? {} : { keep }) };
    return this.configureTopic({ topic, signal, timeoutMs, ...settings });
  }

  /** Change the given settings, all or none; create the topic if there is none. 0: no limit. */
  async configureTopic(options: ConfigureTopicOptions): Promise<void> {
    await this.ask(requests.configureTopic(options));
  }

  /** Remove a topic with its messages, groups and settings. */
  async deleteTopic(options: CallOptions & { topic: string }): Promise<void> {
    await this.ask(requests.done("DeleteTopic", { topic: check.name("topic", options.topic) }, options));
  }

  async setRateLimit(options: CallOptions & RateLimit & { topic: string }): Promise<void> {
    const message = {
      topic: check.name("topic", options.topic),
      ratePerSec: check.rate("ratePerSec", options.ratePerSec),
      burst: check.uint32("burst", options.burst ?? 1),
    };
    await this.ask(requests.done("SetRateLimit", message, options));
  }

  /** Limit what a topic keeps; what is absent has no limit. */
  async setRetention(options: CallOptions & Retention & { topic: string }): Promise<void> {
    const message = {
      topic: check.name("topic", options.topic),
      maxMessages: check.limit("maxMessages", options.maxMessages ?? 0),
      maxAgeMs: check.limit("maxAgeMs", options.maxAgeMs ?? 0),
      maxBytes: check.limit("maxBytes", options.maxBytes ?? 0),
    };
    await this.ask(requests.done("SetRetention", message, options));
  }

  /** List the topics whose names start with `prefix`. */
  async topics(options: CallOptions & { prefix?: string } = {}): Promise<TopicInfo[]> {
    const { prefix = "" } = options;
    return this.pages(async (last?: TopicInfo) => {
      const message = { prefix, after: last?.name };
      const page = await this.ask(requests.plain("ListTopics", message, "Topics", options));
      return [page.topics, page.more];
    });
  }

  /** Return one topic, or null. */
  async topic(options: CallOptions & { topic: string }): Promise<TopicInfo | null> {
    const message = { name: check.name("topic", options.topic) };
    const page = await this.ask(requests.plain("ListTopics", message, "Topics", options));
    return page.topics[0] ?? null;
  }

  /** The broker's figures about itself. */
  async stats(options: CallOptions = {}): Promise<Stats> {
    return this.ask(requests.plain("Stats", {}, "StatsResult", options));
  }

  /** Form a cluster of the nodes of this client; repeated, it does nothing. */
  async bootstrap(options: CallOptions = {}): Promise<void> {
    const nodes = this.nodes.map((node) => {
      if (typeof node === "string" || node.id === undefined || node.peerAddr === undefined) {
        throw badArgument("bootstrap needs nodes with id and peerAddr");
      }
      return { id: node.id, peerAddr: node.peerAddr };
    });
    await this.ask(requests.done("Bootstrap", { nodes }, options));
  }

  private async pages<T>(page: (last?: T) => Promise<[T[], boolean]>): Promise<T[]> {
    const found: T[] = [];
    for (let more = true; more; ) {
      const [entries, isMore] = await page(found.at(-1));
      found.push(...entries);
      more = isMore && entries.length > 0;
    }
    return found;
  }

  // ── Groups ────────────────────────────────────────────────────────────────────────────────────

  /** List the groups of a topic, or of all topics. */
  async groups(options: CallOptions & { topic?: string } = {}): Promise<GroupInfo[]> {
    const { topic = "" } = options;
    return this.pages(async (last?: GroupInfo) => {
      const message = { topic, afterTopic: last?.topic, afterGroup: last?.name };
      const page = await this.ask(requests.plain("ListGroups", message, "Groups", options));
      return [page.groups, page.more];
    });
  }

  /** Create a group that begins at `start`; one that exists stays where it is. */
  async createGroup(options: CreateGroupOptions): Promise<void> {
    await this.ask(requests.createGroup(options, false));
  }

  /** Move a group forwards or backwards; create it if there is none. */
  async seek(options: GroupName & CallOptions & { start: Start }): Promise<void> {
    await this.ask(requests.createGroup(options, true));
  }

  /** Set when messages become dead letters, and the pauses between deliveries. */
  async configureGroup(options: ConfigureGroupOptions): Promise<void> {
    await this.ask(requests.configureGroup(options));
  }

  /** Remove a group and its state. */
  async deleteGroup(options: GroupName & CallOptions): Promise<void> {
    await this.ask(requests.done("DeleteGroup", requests.named(options), options));
  }

  /** Return dead letters to their topic, all unless `max`; return how many. */
  async redrive(options: GroupName & CallOptions & { max?: number }): Promise<number> {
    const max = check.uint32("max", options.max ?? 0);
    const message = { ...requests.named(options), max };
    const ask = requests.read("Redrive", message, "Redriven", options, (answer) => answer.count);
    return this.ask({ ...ask, repeats: max === 0 }); // a repetition could exceed it
  }

  /** Iterate over a group's dead letters; their headers `dlq-reason` and others tell why. */
  async *deadLetters(options: GroupName & CallOptions): AsyncGenerator<FetchedRecord, void, void> {
    const { topic, group } = requests.named(options);
    const letters = `$dlq/${topic}/${percentEncoded(group)}`;
    const groups = await this.groups({ ...options, topic: letters });
    const offset = groups.find((found) => found.name === "redrive")?.position ?? "0";
    yield* this.messages({ ...options, topic: letters, offset });
  }

  // ── Reading ───────────────────────────────────────────────────────────────────────────────────

  /** Read a topic in bulk, as columns, up to its present end; nothing is leased. */
  async *fetch(options: FetchOptions): AsyncGenerator<Slice, void, void> {
    const topic = check.name("topic", options.topic);
    let offset = BigInt(check.uint64("offset", options.offset ?? 0));
    let end = options.endOffset === undefined ? undefined : BigInt(check.uint64("endOffset", options.endOffset));
    let incarnation: string | undefined;
    for (;;) {
      const answer = await this.fetchOnce(topic, offset, end ?? 0n, options);
      incarnation ??= answer.incarnation;
      if (answer.incarnation !== incarnation) {
        throw new PenstockError("deleted", `${topic} was deleted while it was read; begin again`);
      }
      end ??= BigInt(answer.endOffset);
      for (const slice of answer.slices) yield new Slice(topic, slice);
      const next = BigInt(answer.nextOffset);
      if (next <= offset || next >= end) return;
      offset = next;
    }
  }

  private async fetchOnce(
    topic: string,
    offset: bigint,
    endOffset: bigint,
    options: CallOptions,
  ): Promise<Incoming<"Fetched">> {
    const message = { topic, offset, endOffset, maxMessages: FETCH_MESSAGES, maxBytes: FETCH_BYTES };
    return this.ask(requests.plain("Fetch", message, "Fetched", options));
  }

  /** Read as `fetch` does, message by message. */
  async *messages(options: FetchOptions): AsyncGenerator<FetchedRecord, void, void> {
    for await (const slice of this.fetch(options)) yield* slice;
  }

  /** Find the offsets of times, and how far so many bytes reach. */
  async locate(options: LocateOptions): Promise<Located> {
    const message = {
      topic: check.name("topic", options.topic),
      timesMs: [...(options.timesMs ?? [])].map((time) => check.uint64("timesMs", time)),
      measures: [...(options.measures ?? [])].map(({ offset, bytes }) => ({
        offset: check.uint64("offset", offset),
        bytes: check.uint64("bytes", bytes),
      })),
    };
    return this.ask(requests.plain("Locate", message, "Located", options));
  }

  /** List topics by MQTT filters, and then those that have changed. */
  async changes(options: ChangesOptions = {}): Promise<Changes> {
    const waitMs = check.milliseconds("waitMs", options.waitMs ?? 0);
    const message = {
      filters: [...(options.filters ?? [])].map((filter) => check.name("filters", filter)),
      afterSequence: check.uint64("afterSequence", options.afterSequence ?? 0),
      waitMs,
      max: check.uint32("max", options.max ?? 0),
      after: options.after ?? "",
    };
    const ask = requests.plain("Changes", message, "Changed", options);
    return this.ask({ ...ask, graceMs: waitMs });
  }

  /** List the keys that devices sign with: the public halves. */
  async keys(options: CallOptions = {}): Promise<PublicKey[]> {
    return this.pages(async (last?: PublicKey) => {
      const page = await this.ask(requests.plain("ListKeys", { after: last?.id }, "Keys", options));
      return [page.keys, page.more];
    });
  }

  // ── The end ───────────────────────────────────────────────────────────────────────────────────

  /**
   * End everything, within two seconds: subscriptions take no more messages, handlers that run may
   * finish and are acknowledged, open calls fail with `closed`.
   */
  async close(): Promise<void> {
    await Promise.all([...this.subscriptions].map((one) => one.end(CLOSE_MS)));
    this.link.close();
  }
}

/** As the broker does for names of dead letter topics: all but letters, digits and `_.-~`. */
function percentEncoded(text: string): string {
  const code = (char: string) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`;
  return encodeURIComponent(text).replace(/[!'()*]/g, code);
}
