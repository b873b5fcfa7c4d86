/**
 * Checks of arguments, before anything is sent: the broker would refuse some mistakes, misread
 * others (0 ms of visibility is its default), and never see the rest. These errors name the
 * argument.
 */

import { badArgument } from "./errors";
import type { Uint64 } from "./schema";
import type { ContentType, GivenHeaders, Start } from "./types";

const U32_MAX = 0xffff_ffff;
const U64_MAX = (1n << 64n) - 1n;
const CONTENT_TYPES = ["raw", "text", "json", "msgpack"];
const EARLIEST = 0;
const LATEST = 1;
const AT_OFFSET = 2;
const AT_TIME = 3;

export function name(argument: string, value: string): string {
  if (typeof value !== "string" || value === "") throw badArgument(`${argument} must be text, not ${shown(value)}`);
  return value;
}

export function uint32(argument: string, value: number, least = 0, most = U32_MAX): number {
  if (Number.isInteger(value) && value >= least && value <= most) return value;
  throw badArgument(`${argument} must be a whole number from ${least} to ${most}, not ${shown(value)}`);
}

export function uint64(argument: string, value: Uint64): Uint64 {
  if (typeof value === "number" && Number.isSafeInteger(value) && value >= 0) return value;
  try {
    if (typeof value === "bigint" || (typeof value === "string" && /^\d{1,20}$/.test(value))) {
      const number = BigInt(value);
      if (number >= 0n && number <= U64_MAX) return value;
    }
  } catch {
    // told below
  }
  throw badArgument(`${argument} must be a whole number of 64 bits, as text or bigint if large, not ${shown(value)}`);
}

export function milliseconds(argument: string, value: number, least = 0): number {
  if (typeof value === "number" && value >= least && value <= Number.MAX_SAFE_INTEGER) return Math.ceil(value);
  throw badArgument(`${argument} must be milliseconds, ${least} or more, not ${shown(value)}`);
}

export function optional<T, R>(value: T | undefined, check: (value: T) => R): R | undefined {
  return value === undefined ? undefined : check(value);
}

/** HermesMQ's client takes negative limits, as none. */
export function limit(argument: string, value: number | undefined): number | undefined {
  return value === undefined ? undefined : uint32OrMore(argument, Math.max(0, value));
}

function uint32OrMore(argument: string, value: number): number {
  return uint64(argument, value) as number;
}

export function rate(argument: string, value: number): number {
  if (typeof value === "number" && value >= 0) return value;
  throw badArgument(`${argument} must be a number, 0 or more, not ${shown(value)}`);
}

export function contentType(value: ContentType | number): number {
  const number = typeof value === "string" ? CONTENT_TYPES.indexOf(value) : value;
  if (Number.isInteger(number) && number >= 0 && number <= 3) return number;
  throw badArgument(`contentType must be one of ${CONTENT_TYPES.join(", ")}, not ${shown(value)}`);
}

export function ackMode(value: string): string {
  if (value === "manual" || value === "auto") return value;
  throw badArgument(`ackMode must be "manual" or "auto", not ${shown(value)}`);
}

export function bytes(argument: string, value: Uint8Array | string): Uint8Array {
  if (value instanceof Uint8Array) return value;
  if (typeof value === "string") return Buffer.from(value);
  throw badArgument(`${argument} must be bytes or text, not ${shown(value)}`);
}

export function headers(given: GivenHeaders): { name: string; value: Uint8Array }[] {
  const list = Array.isArray(given)
    ? (given as readonly { name: string; value: string | Uint8Array }[])
    : Object.entries(given).map(([header, value]) => ({ name: header, value }));
  return list.map((header) => ({
    name: name("a header's name", header.name),
    value: bytes(`header ${header.name}`, header.value),
  }));
}

export function start(value: Start): { start: number; startValue: Uint64 } {
  if (value === "earliest") return { start: EARLIEST, startValue: 0 };
  if (value === "latest") return { start: LATEST, startValue: 0 };
  if (value instanceof Date) return { start: AT_TIME, startValue: milliseconds("start", value.getTime()) };
  return { start: AT_OFFSET, startValue: uint64("start", value) };
}

function shown(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value.slice(0, 80));
  return value === null || typeof value !== "object" ? String(value) : `an object`;
}
