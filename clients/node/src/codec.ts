/**
 * Reads and writes messages of Protocol Buffers, driven by the tables of `schema.ts`.
 *
 * **Writing goes backwards**, from the last byte of a frame to its first: the length of a message
 * is known when its length prefix is written, so nothing is measured beforehand or moved
 * afterwards. Frames are cut off the end of a slab, which is shared by many and replaced when it is
 * used up; no frame is copied.
 *
 * **Reading** takes whatever fields come, in any order, and skips those that it does not know. Byte
 * fields are views of the bytes that were received. A length that exceeds its message, an overlong
 * number and a group are errors: the peer is no broker.
 */

import { protocolError } from "./errors";
import {
  MESSAGES,
  REQUEST_ID,
  REQUESTS,
  RESPONSES,
  type Fields,
  type Incoming,
  type MessageName,
  type Outgoing,
  type RequestName,
  type ResponseName,
  type Uint64,
} from "./schema";

const VARINT = 0;
const FIXED64 = 1;
const BYTES = 2;
const FIXED32 = 5;

const SLAB_BYTES = 64 * 1024;
const NONE: readonly never[] = Object.freeze([]);
const EMPTY = Buffer.alloc(0);

type Plain = Record<string, unknown>;
type Kind = "string" | "bytes" | "number" | "uint64" | "count" | "bool" | "double" | "message";

interface Field {
  name: string;
  number: number;
  kind: Kind;
  message: Compiled | undefined;
  repeated: boolean;
  optional: boolean;
  tag: number;
}

/** A message's table in the order that writing and reading want. */
interface Compiled {
  descending: Field[];
  byNumber: (Field | undefined)[];
  defaults: Plain;
}

const KINDS: Record<string, Kind> = {
  string: "string",
  bytes: "bytes",
  uint32: "number",
  enum: "number",
  uint64: "uint64",
  count: "count",
  bool: "bool",
  double: "double",
};

const DEFAULTS: Record<Kind, unknown> = {
  string: "",
  bytes: EMPTY,
  number: 0,
  uint64: "0",
  count: 0,
  bool: false,
  double: 0,
  message: undefined,
};

const compiled = new Map<string, Compiled>();

function table(name: MessageName): Compiled {
  let found = compiled.get(name);
  if (found === undefined) {
    found = compile(MESSAGES[name]);
    compiled.set(name, found);
  }
  return found;
}

function compile(fields: Fields): Compiled {
  const made: Compiled = { descending: [], byNumber: [], defaults: {} };
  for (const [name, [number, type]] of Object.entries(fields)) {
    const base = type.replace(/[*?]$/, "");
    const kind = KINDS[base] ?? "message";
    const message = kind === "message" ? table(base as MessageName) : undefined;
    const wire = kind === "double" ? FIXED64 : isLengthFirst(kind) ? BYTES : VARINT;
    const repeated = type.endsWith("*");
    const optional = type.endsWith("?");
    const tag = (number << 3) | (repeated ? BYTES : wire);
    const field = { name, number, kind, message, repeated, optional, tag };
    made.byNumber[number] = field;
    made.defaults[name] = repeated ? NONE : DEFAULTS[kind];
    made.descending.push(field);
  }
  made.descending.sort((a, b) => b.number - a.number);
  return made;
}

function isLengthFirst(kind: Kind): boolean {
  return kind === "string" || kind === "bytes" || kind === "message";
}

// ── Writing ─────────────────────────────────────────────────────────────────────────────────────

let slab = Buffer.allocUnsafeSlow(SLAB_BYTES);
let at = SLAB_BYTES; // where the frame that is being written begins
let end = SLAB_BYTES; // where it ends; what is above belongs to others

/** Make room for so many bytes before what is written. */
function reserve(bytes: number): void {
  if (at >= bytes) return;
  const written = end - at;
  const larger = Buffer.allocUnsafeSlow(Math.max(SLAB_BYTES, 2 * (written + bytes)));
  slab.copy(larger, larger.length - written, at, end);
  slab = larger;
  end = larger.length;
  at = end - written;
}

function putVarint(value: number): void {
  reserve(10);
  if (value < 0x80) {
    slab[--at] = value;
    return;
  }
  let size = 1;
  for (let rest = value; rest >= 0x80; rest = Math.floor(rest / 0x80)) size++;
  at -= size;
  let next = at;
  while (value >= 0x80) {
    slab[next++] = (value & 0x7f) | 0x80; // & takes the lowest 32 bits of any exact number
    value = value > 0x7fff_ffff ? Math.floor(value / 0x80) : value >>> 7;
  }
  slab[next] = value;
}

function putUint64(value: Uint64): void {
  const number = typeof value === "number" ? value : Number(value);
  if (Number.isSafeInteger(number)) {
    putVarint(number);
    return;
  }
  const bytes: number[] = [];
  let rest = BigInt(value);
  for (; rest >= 0x80n; rest >>= 7n) bytes.push(Number(rest & 0x7fn) | 0x80);
  bytes.push(Number(rest));
  reserve(10);
  at -= bytes.length;
  slab.set(bytes, at);
}

function putText(value: string): void {
  const size = Buffer.byteLength(value);
  reserve(size);
  at -= size;
  slab.write(value, at, size, "utf8");
  putVarint(size);
}

function putBytes(value: Uint8Array): void {
  reserve(value.length);
  at -= value.length;
  slab.set(value, at);
  putVarint(value.length);
}

function putDouble(value: number): void {
  reserve(8);
  at -= 8;
  slab.writeDoubleLE(value, at);
}

function putMessage(message: Compiled, value: Plain): void {
  const until = end - at;
  for (const field of message.descending) {
    const given = value[field.name];
    if (given === undefined) continue;
    if (field.repeated) putRepeated(field, given as readonly unknown[]);
    else if (field.optional || !isZero(given)) {
      putOne(field, given);
      putVarint(field.tag);
    }
  }
  putVarint(end - at - until);
}

function isZero(value: unknown): boolean {
  return !value || value === "0" || (value instanceof Uint8Array && value.length === 0);
}

function putRepeated(field: Field, values: readonly unknown[]): void {
  if (values.length === 0) return;
  if (isLengthFirst(field.kind)) {
    for (let index = values.length - 1; index >= 0; index--) {
      putOne(field, values[index]);
      putVarint(field.tag);
    }
    return;
  }
  const until = end - at;
  for (let index = values.length - 1; index >= 0; index--) putOne(field, values[index]);
  putVarint(end - at - until);
  putVarint(field.tag);
}

function putOne(field: Field, value: unknown): void {
  switch (field.kind) {
    case "string":
      return putText(value as string);
    case "bytes":
      return putBytes(value as Uint8Array);
    case "uint64":
    case "count":
      return putUint64(value as Uint64);
    case "double":
      return putDouble(value as number);
    case "message":
      return putMessage(field.message!, value as Plain);
    default:
      return putVarint(Number(value));
  }
}

/** Write a request as a frame: its length, 4 bytes, and the fields in the order of their numbers. */
export function encodeRequest<M extends RequestName>(
  name: M,
  message: Outgoing<M>,
  requestId: number,
): Buffer {
  end = at;
  const number = REQUESTS[name];
  if (number < REQUEST_ID) putRequestId(requestId);
  putMessage(table(name), message as Plain);
  putVarint((number << 3) | BYTES);
  if (number > REQUEST_ID) putRequestId(requestId);
  reserve(4);
  const size = end - at;
  at -= 4;
  slab.writeUInt32BE(size, at);
  return slab.subarray(at, end);
}

function putRequestId(requestId: number): void {
  if (requestId === 0) return;
  putVarint(requestId);
  putVarint((REQUEST_ID << 3) | VARINT);
}

// ── Reading ─────────────────────────────────────────────────────────────────────────────────────

let source: Buffer = EMPTY;
let position = 0;
let high = 0; // of the number read last: its upper 32 bits

/** Read a number: the lower 32 bits are returned, the upper ones are in `high`. */
function varint(limit: number): number {
  let low = 0;
  high = 0;
  for (let shift = 0; shift < 70; shift += 7) {
    if (position >= limit) throw truncated();
    const byte = source[position++]!;
    const bits = byte & 0x7f;
    if (shift < 28) low |= bits << shift;
    else if (shift === 28) {
      low |= bits << 28;
      high = bits >>> 4;
    } else if (shift < 63) high |= bits << (shift - 32);
    else high |= bits << 31;
    if (byte < 0x80) {
      high >>>= 0;
      return low >>> 0;
    }
  }
  throw protocolError("a number of more than 64 bits");
}

function uint64Text(limit: number): string {
  const low = varint(limit);
  if (high < 0x20_0000) return String(high * 0x1_0000_0000 + low);
  return String((BigInt(high) << 32n) | BigInt(low));
}

function truncated(): Error {
  return protocolError("a message that ends too early");
}

/** Read a length; return where what it measures ends. */
function extent(limit: number): number {
  const size = varint(limit);
  if (high > 0 || size > limit - position) throw truncated();
  return position + size;
}

function getMessage(message: Compiled, limit: number): Plain {
  const made: Plain = { ...message.defaults };
  while (position < limit) {
    const tag = varint(limit);
    const field = message.byNumber[tag >>> 3];
    const wire = tag & 7;
    if (field === undefined || !fits(field, wire)) skip(wire, limit);
    else if (field.repeated) getRepeated(made, field, wire, limit);
    else made[field.name] = getOne(field, limit);
  }
  return made;
}

function fits(field: Field, wire: number): boolean {
  return wire === (field.tag & 7) || (field.repeated && !isLengthFirst(field.kind) && wire === VARINT);
}

function getRepeated(made: Plain, field: Field, wire: number, limit: number): void {
  if (made[field.name] === NONE) made[field.name] = [];
  const values = made[field.name] as unknown[];
  if (isLengthFirst(field.kind) || wire === VARINT) {
    values.push(getOne(field, limit));
    return;
  }
  const until = extent(limit);
  while (position < until) values.push(getOne(field, until));
}

function getOne(field: Field, limit: number): unknown {
  switch (field.kind) {
    case "string":
      return getText(extent(limit));
    case "bytes":
      return getBytes(extent(limit));
    case "uint64":
      return uint64Text(limit);
    case "number":
      return varint(limit);
    case "count": {
      const low = varint(limit);
      return high * 0x1_0000_0000 + low;
    }
    case "bool":
      return varint(limit) !== 0 || high !== 0;
    case "double":
      return getDouble(limit);
    default:
      return getMessage(field.message!, extent(limit));
  }
}

function getText(until: number): string {
  const text = source.toString("utf8", position, until);
  position = until;
  return text;
}

function getBytes(until: number): Buffer {
  const bytes = source.subarray(position, until);
  position = until;
  return bytes;
}

function getDouble(limit: number): number {
  if (limit - position < 8) throw truncated();
  position += 8;
  return source.readDoubleLE(position - 8);
}

function skip(wire: number, limit: number): void {
  if (wire === VARINT) varint(limit);
  else if (wire === BYTES) position = extent(limit);
  else if (wire === FIXED64 || wire === FIXED32) {
    position += wire === FIXED64 ? 8 : 4;
    if (position > limit) throw truncated();
  } else throw protocolError(`a field of the unknown type ${wire}`);
}

const RESPONSE_OF = new Map<number, ResponseName>(
  Object.entries(RESPONSES).map(([name, number]) => [number, name as ResponseName]),
);

/** A response: which kind it is (`undefined` for one that we do not know), and its content. */
export type Response =
  | { [M in ResponseName]: { kind: M; body: Incoming<M>; requestId: number } }[ResponseName]
  | { kind: undefined; body: undefined; requestId: number };

/** Read the response that is `bytes` from `start` up to `limit`. */
export function decodeResponse(bytes: Buffer, start: number, limit: number): Response {
  source = bytes;
  position = start;
  let kind: ResponseName | undefined;
  let body: unknown;
  let requestId = 0;
  while (position < limit) {
    const tag = varint(limit);
    const number = tag >>> 3;
    const found = (tag & 7) === BYTES ? RESPONSE_OF.get(number) : undefined;
    if (found !== undefined) {
      kind = found;
      body = getMessage(table(found), extent(limit));
    } else if (number === REQUEST_ID && (tag & 7) === VARINT) {
      const low = varint(limit);
      requestId = high * 0x1_0000_0000 + low;
    } else skip(tag & 7, limit);
  }
  source = EMPTY;
  return { kind, body, requestId } as Response;
}
