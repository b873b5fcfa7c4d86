/** Errors: one class, told apart by `code`. */

import type { Lease } from "./types";

/**
 * An error of the broker (its code, see the protocol's reference) or of this client:
 *
 * | code | meaning |
 * |---|---|
 * | `bad_argument` | a mistake of the caller; nothing was sent |
 * | `unreachable` | no connection within `timeoutMs` |
 * | `timeout` | no answer within `timeoutMs`; the outcome is unknown |
 * | `connection_lost` | the answer was lost, and a repetition could do harm; outcome unknown |
 * | `closed` | the client was closed |
 * | `lease_lost` | leases were over, or their jobs settled before: see `leases` |
 * | `protocol` | the other end is no broker |
 * | `tls` | no TLS could be agreed on |
 */
export class PenstockError extends Error {
  override readonly name = "PenstockError";
  readonly code: string;
  /** When to try again, if the broker said so. */
  readonly retryAfterMs: number | undefined;
  /** The leases that a `lease_lost` is about. */
  readonly leases: Lease[] | undefined;
  /** @internal */
  leaderAddr = "";

  constructor(
    code: string,
    message: string,
    more: { retryAfterMs?: number; leases?: Lease[]; cause?: unknown } = {},
  ) {
    super(`${code}: ${message}`, more.cause === undefined ? undefined : { cause: more.cause });
    this.code = code;
    this.retryAfterMs = more.retryAfterMs;
    this.leases = more.leases;
  }
}

/** Thrown by the handler of a subscription: hand this message out again, not before `delayMs`. */
export class Retry extends Error {
  override readonly name = "Retry";
  readonly delayMs: number;

  constructor(reason = "retry", { delayMs = 0 }: { delayMs?: number | undefined } = {}) {
    super(reason);
    this.delayMs = Math.max(0, Math.ceil(delayMs));
  }
}

/** Thrown by the handler of a subscription: this message can never succeed. It is a dead letter now. */
export class DeadLetter extends Error {
  override readonly name = "DeadLetter";
}

interface Refusal {
  code: string;
  message: string;
  leaderAddr: string;
  retryAfterMs: number;
}

export function refusal(error: Refusal): PenstockError {
  const { code, message, leaderAddr, retryAfterMs } = error;
  const isLater = retryAfterMs > 0;
  const text = isLater ? `${message} (retry after ${retryAfterMs} ms)` : message;
  const made = new PenstockError(code, text, isLater ? { retryAfterMs } : {});
  made.leaderAddr = leaderAddr;
  return made;
}

export function badArgument(message: string): PenstockError {
  return new PenstockError("bad_argument", message);
}

export function protocolError(detail: string): PenstockError {
  return new PenstockError("protocol", `the other end sent ${detail}; is this the address of a broker?`);
}

/** An error about a connection, as each of several callers gets it. */
export function copyOf(error: PenstockError): PenstockError {
  const { retryAfterMs, leases } = error;
  const message = error.message.slice(error.code.length + 2);
  return new PenstockError(error.code, message, {
    cause: error,
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    ...(leases === undefined ? {} : { leases }),
  });
}

/** A retry of the same request would be refused, too. */
const FINAL = new Set(["bad_request", "forbidden", "limit", "unauthenticated", "not_authorized"]);

export function isFinal(error: PenstockError): boolean {
  return FINAL.has(error.code);
}

/** What no later attempt to connect would change. */
export function isMistake(error: PenstockError): boolean {
  return ["tls", "unauthenticated", "not_authorized", "bad_argument"].includes(error.code);
}

/** What went wrong, as one of ours: a fault of this package is one of the protocol, too. */
export function asPenstockError(error: unknown): PenstockError {
  if (error instanceof PenstockError) return error;
  return new PenstockError("protocol", String(error), { cause: error });
}
