/**
 * Numbers of messages, so that the broker stores a repetition once; and batches of messages.
 *
 * The broker knows a message by producer id and seq, per topic. A client makes up an id and counts
 * for itself, from 0, at the moment of the call: its repetitions are recognised for as long as it
 * lives. Who gives an id of their own, to be recognised over restarts, gives each seq, too: counted
 * from 0 again, new messages would be taken for repetitions.
 */

import { badArgument } from "./errors";
import * as check from "./checks";
import type { Outgoing, Uint64 } from "./schema";
import type { ProduceItem } from "./types";

export const BATCH_MAX = 256; // messages in one request; the broker commits as many together
const BATCH_BYTES_MAX = 1024 * 1024; // payloads in one request, unless a single one is larger

export class Producer {
  readonly id = crypto.randomUUID();
  private readonly next = new Map<string, number>();

  /** Return the id and the next of our seqs. */
  number(topic: string): number {
    const seq = this.next.get(topic) ?? 0;
    this.next.set(topic, seq + 1);
    return seq;
  }

  /** Check a message; return what is written, with a seq of ours unless it has its own. */
  numbered(item: ProduceItem): Outgoing<"Produce"> {
    const { producerId, seq } = item;
    const message = described(item);
    if (producerId === undefined && seq === undefined) {
      message.producerId = this.id;
      message.seq = this.number(message.topic!);
    } else if (producerId === undefined || seq === undefined) {
      throw badArgument("producerId and seq belong together: give both, or none");
    } else {
      message.producerId = check.name("producerId", producerId);
      message.seq = check.uint64("seq", seq);
    }
    return message;
  }
}

function described(item: ProduceItem): Outgoing<"Produce"> {
  return {
    topic: check.name("topic", item.topic),
    payload: check.bytes("body", item.body),
    priority: check.uint32("priority", item.priority ?? 0, 0, 7),
    contentType: item.contentType === undefined ? 0 : check.contentType(item.contentType),
    producerId: "",
    seq: 0,
    delayMs: item.delayMs === undefined ? 0 : check.milliseconds("delayMs", item.delayMs),
    ttlMs: item.ttlMs === undefined ? 0 : check.milliseconds("ttlMs", item.ttlMs),
    headers: item.headers === undefined ? undefined : check.headers(item.headers),
  };
}

/** Messages that have everything but payload and seq in common; seqs are in a row. */
export class Batch {
  readonly payloads: Uint8Array[] = [];
  private bytes = 0;

  constructor(private readonly head: Outgoing<"Produce">) {
    this.add(head);
  }

  /** Add a message if it belongs here and there is room. */
  takes(message: Outgoing<"Produce">): boolean {
    const size = this.bytes + message.payload!.length;
    if (this.payloads.length >= BATCH_MAX || size > BATCH_BYTES_MAX) return false;
    if (!this.isAlike(message)) return false;
    this.add(message);
    return true;
  }

  private add(message: Outgoing<"Produce">): void {
    this.payloads.push(message.payload!);
    this.bytes += message.payload!.length;
  }

  private isAlike(message: Outgoing<"Produce">): boolean {
    const head = this.head;
    return (
      message.topic === head.topic &&
      message.producerId === head.producerId &&
      message.priority === head.priority &&
      message.contentType === head.contentType &&
      message.delayMs === head.delayMs &&
      message.ttlMs === head.ttlMs &&
      message.headers === undefined &&
      head.headers === undefined &&
      isAfter(message.seq!, head.seq!, this.payloads.length)
    );
  }

  get request(): Outgoing<"ProduceMany"> {
    const { payload: _, ...rest } = this.head;
    return { ...rest, payloads: this.payloads };
  }
}

function isAfter(seq: Uint64, first: Uint64, count: number): boolean {
  if (typeof seq === "number" && typeof first === "number") return seq === first + count;
  return BigInt(seq) === BigInt(first) + BigInt(count);
}
