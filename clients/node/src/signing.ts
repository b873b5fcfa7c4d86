/**
 * Signatures of Ed25519: envelopes for `$signed/` topics, and what `fetch` tells of signed messages.
 *
 * MQTT and Redis have no field for a signature, so it travels in front of the payload:
 *
 *     version  key id  [time of signing  nonce  ]  signature  payload
 *     1 byte   u32     [u64 ms           8 bytes]  64 bytes   the rest
 *
 * Publish it to `$signed/` plus the topic. Sign when you send, not when you store for later: the
 * broker refuses old signatures of version 2.
 */

import { createPrivateKey, createPublicKey, randomBytes, sign, verify, type KeyObject } from "node:crypto";

import type { Signature } from "./columns";
import { badArgument } from "./errors";

const PREFIX = "$signed/";
const DOMAIN = Buffer.from("penstock-signature-2");
const SIGNATURE_BYTES = 64;
const NONCE_BYTES = 8;
const SECRET_HEAD = Buffer.from("302e020100300506032b657004220420", "hex"); // of PKCS#8, then the seed
const PUBLIC_HEAD = Buffer.from("302a300506032b6570032100", "hex"); // of SPKI, then the key

/** The secret half of a device's key: what `penstock keys new` writes, parsed, or bytes. */
export interface SigningKey {
  key_id: number;
  /** The seed of 32 bytes, or seed and public key: bytes or hexadecimal. */
  secret_key: string | Uint8Array;
}

export interface SignOptions {
  /** 2 also covers time and nonce, so that a replay is refused (2). */
  version?: 1 | 2;
  timeMs?: number;
}

/** What a signature is about: a record of `fetch`, or an opened envelope. */
export interface Signed {
  topic: string;
  payload: Uint8Array;
  signature: Signature | undefined;
}

/** Sign a message; return where to publish which payload. */
export function signEnvelope(
  key: SigningKey,
  topic: string,
  payload: Uint8Array | string,
  { version = 2, timeMs = Date.now() }: SignOptions = {},
): { topic: string; payload: Buffer } {
  const body = typeof payload === "string" ? Buffer.from(payload) : payload;
  const unsigned = {
    version,
    keyId: key.key_id,
    signature: Buffer.alloc(0),
    signedMs: String(timeMs),
    nonce: randomBytes(NONCE_BYTES),
  };
  const signature = sign(null, covered(topic, body, unsigned), privateKey(key));
  const head = Buffer.from([version, ...u32(key.key_id)]);
  const proof = version === 2 ? [u64(unsigned.signedMs), unsigned.nonce] : [];
  return { topic: PREFIX + topic, payload: Buffer.concat([head, ...proof, signature, body]) };
}

/** Take an envelope apart, as subscribers of `$signed/…` get it. It is not verified. */
export function openEnvelope(topic: string, envelope: Buffer): Signed & { payload: Buffer; signature: Signature } {
  const version = envelope[0];
  const size = version === 2 ? 1 + 4 + 8 + NONCE_BYTES + SIGNATURE_BYTES : 1 + 4 + SIGNATURE_BYTES;
  if ((version !== 1 && version !== 2) || envelope.length < size || !topic.startsWith(PREFIX)) {
    throw badArgument("this is no envelope of a signed message");
  }
  const signature: Signature = {
    version,
    keyId: envelope.readUInt32BE(1),
    signature: envelope.subarray(size - SIGNATURE_BYTES, size),
    signedMs: version === 2 ? String(envelope.readBigUInt64BE(5)) : "0",
    nonce: version === 2 ? envelope.subarray(13, 13 + NONCE_BYTES) : Buffer.alloc(0),
  };
  return { topic: topic.slice(PREFIX.length), payload: envelope.subarray(size), signature };
}

/** Whether a message was signed with the secret half of this key. Keys come from `client.keys()`. */
export function verifySignature(publicKey: Uint8Array, message: Signed): boolean {
  const { topic, payload, signature } = message;
  if (signature === undefined) return false;
  const key = createPublicKey({ key: Buffer.concat([PUBLIC_HEAD, publicKey]), format: "der", type: "spki" });
  return verify(null, covered(topic, payload, signature), key, signature.signature);
}

/** The bytes that a signature covers. */
function covered(topic: string, payload: Uint8Array, signature: Signature): Buffer {
  const name = Buffer.from(topic);
  if (signature.version === 1) return Buffer.concat([name, payload]);
  const { keyId, signedMs, nonce } = signature;
  const lengths = Buffer.from([name.length >> 8, name.length & 0xff, ...u32(payload.length)]);
  return Buffer.concat([DOMAIN, u32(keyId), u64(signedMs), nonce, lengths, name, payload]);
}

function privateKey({ secret_key: secret }: SigningKey): KeyObject {
  const bytes = typeof secret === "string" ? Buffer.from(secret, "hex") : secret;
  if (bytes.length !== 32 && bytes.length !== 64) throw badArgument("secret_key must be of 32 or 64 bytes");
  return createPrivateKey({ key: Buffer.concat([SECRET_HEAD, bytes.subarray(0, 32)]), format: "der", type: "pkcs8" });
}

function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

function u64(value: string): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64BE(BigInt(value));
  return bytes;
}
