/**
 * What `fetch` returns: slices of a topic as the journal has them, in columns.
 *
 * Messages of a slice have consecutive offsets; a gap between two slices is messages that were
 * deleted. They lie in runs that have time and flags in common. Iterating makes single records.
 */

import { endianness } from "node:os";

import type { Incoming } from "./schema";
import type { Header } from "./types";

/** Who signed a message, and what a verification needs. */
export interface Signature {
  version: number;
  keyId: number;
  signature: Buffer;
  /** Of version 2. */
  signedMs: string;
  nonce: Buffer;
}

/** A message as the journal has it. */
export interface FetchedRecord {
  topic: string;
  offset: string;
  /** Its place in the journal. */
  sequence: string;
  tsMs: string;
  priority: number;
  contentType: number;
  payload: Buffer;
  headers: readonly Header[];
  signature: Signature | undefined;
  /** Groups get it between these times; "0": no limit. */
  dueMs: string;
  expiresMs: string;
}

const NO_HEADERS: readonly Header[] = Object.freeze([]);

/** Consecutive messages of a topic; iterate over it for records. */
export class Slice implements Iterable<FetchedRecord> {
  readonly firstOffset: string;
  readonly count: number;
  /** Payloads, one after the other. */
  readonly payloads: Buffer;
  /** `count + 1` numbers: where payloads begin and end. */
  readonly bounds: Uint32Array;
  private readonly runStarts: Uint32Array;
  private readonly runPositions: Uint32Array;
  private readonly runTimes: Uint32Array;

  /** @internal */
  constructor(
    readonly topic: string,
    private readonly slice: Incoming<"Slice">,
  ) {
    this.firstOffset = slice.firstOffset;
    this.count = slice.count;
    this.payloads = slice.payloads;
    const bounds = numbers(slice.bounds);
    const shift = bounds[0] ?? 0;
    this.bounds = bounds.map((bound) => bound - shift);
    this.runStarts = numbers(slice.runStarts);
    this.runPositions = numbers(slice.runPositions);
    this.runTimes = numbers(slice.runTimes);
  }

  *[Symbol.iterator](): Iterator<FetchedRecord> {
    const extras = new Map(this.slice.extras.map((extra) => [extra.number, extra]));
    for (let run = 0; run < this.runStarts.length; run++) {
      const end = this.runStarts[run + 1] ?? this.count;
      for (let number = this.runStarts[run]!; number < end; number++) {
        yield this.record(number, run, extras.get(number));
      }
    }
  }

  private record(number: number, run: number, extra: Incoming<"Extra"> | undefined): FetchedRecord {
    const { baseSequence, timeMs, runFlags, runTypes } = this.slice;
    const place = this.runPositions[run]! + number - this.runStarts[run]!;
    return {
      topic: this.topic,
      offset: plus(this.firstOffset, number),
      sequence: plus(baseSequence, place),
      tsMs: String(timeMs + this.runTimes[run]!),
      priority: (runFlags[run]! >> 4) & 7,
      contentType: (runTypes[run] ?? 0) & 3,
      payload: this.payloads.subarray(this.bounds[number], this.bounds[number + 1]),
      headers: extra?.headers ?? NO_HEADERS,
      signature: extra === undefined ? undefined : signatureOf(extra),
      dueMs: extra?.dueMs ?? "0",
      expiresMs: extra?.expiresMs ?? "0",
    };
  }
}

function signatureOf(extra: Incoming<"Extra">): Signature | undefined {
  const { signatureVersion, keyId, signature, signedMs, nonce } = extra;
  if (signature.length === 0) return undefined;
  return { version: signatureVersion, keyId, signature, signedMs, nonce };
}

function plus(first: string, more: number): string {
  const sum = Number(first) + more;
  return Number.isSafeInteger(sum) ? String(sum) : String(BigInt(first) + BigInt(more));
}

/** A column of u32, little-endian, copied: views must begin at a multiple of four. */
function numbers(column: Buffer): Uint32Array {
  const copy = new Uint8Array(column).subarray(0, column.length & ~3);
  if (endianness() === "BE") Buffer.from(copy.buffer, 0, copy.length).swap32();
  return new Uint32Array(copy.buffer, 0, copy.length / 4);
}
