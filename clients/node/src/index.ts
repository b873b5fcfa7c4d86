/** Penstock's queue client for Node: see README.md. */

export { Client } from "./client";
export { Slice, type FetchedRecord, type Signature } from "./columns";
export { connect } from "./connect";
export { DeadLetter, PenstockError, Retry } from "./errors";
export {
  openEnvelope,
  signEnvelope,
  verifySignature,
  type Signed,
  type SigningKey,
  type SignOptions,
} from "./signing";
export type { Subscription } from "./subscription";
export type * from "./types";
