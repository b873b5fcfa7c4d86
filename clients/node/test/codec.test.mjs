// Frames, byte by byte.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { decodeResponse, encodeRequest } from "../dist/codec.js";
import { FrameReader } from "../dist/frames.js";

// Made by the broker's own codec, for all clients.
const VECTORS = JSON.parse(readFileSync(new URL("../../vectors.json", import.meta.url), "utf8")).queue;

const hex = (text) => Buffer.from(text.replaceAll(" ", ""), "hex");

const REQUESTS = [
  ["Stats", {}, 0, "00000002 4200"],
  ["Produce", { topic: "t", payload: Buffer.from("hello") }, 0, "0000000c 0a0a 0a0174 2205 68656c6c6f"],
  [
    "Produce",
    { topic: "t", priority: 7, contentType: 2, payload: Buffer.from("hi"), producerId: "p", seq: 42 },
    0,
    "00000012 0a10 0a0174 1007 1802 2202 6869 2a0170 302a",
  ],
  [
    "Poll",
    { topic: "t", group: "g", max: 10, visibilityTimeoutMs: 1000, ackMode: "manual" },
    0,
    "00000015 1213 0a0174 120167 180a 20e807 2a06 6d616e75616c",
  ],
  ["Ack", { topic: "t", group: "g", leaseId: "0" }, 0, "00000008 1a06 0a0174 120167"],
  ["SetRateLimit", { topic: "t", ratePerSec: 0.5, burst: 1 }, 0, "00000010 520e 0a0174 11 000000000000e03f 1801"],
  [
    "Bootstrap",
    { nodes: [{ id: 1, peerAddr: "127.0.0.1:7700" }] },
    0,
    "00000016 4a14 0a12 0801 120e 3132372e302e302e313a37373030",
  ],
  [
    "Produce",
    { topic: "jobs", payload: Buffer.from("dog"), producerId: "p", seq: 1, priority: 5 },
    3,
    "00000016 0a12 0a046a6f6273 1005 2203646f67 2a0170 3001 7803",
  ],
  ["AckMany", { topic: "t", group: "g", leaseIds: [0, "300"] }, 0, "0000000e 8a010b 0a0174 120167 1a03 00ac02"],
  ["ConfigureTopic", { topic: "t", burst: 0, keep: false }, 0, "0000000a ca0107 0a0174 1800 3800"],
];

for (const [name, message, number, frame] of REQUESTS) {
  test(`${name} is written as ${frame}`, () => {
    assert.equal(encodeRequest(name, message, number).toString("hex"), frame.replaceAll(" ", ""));
  });
}

const text = (value) => Buffer.from(value);
const MEANINGS = {
  Produce: ["Produce", { topic: "images", priority: 5, payload: text("cat.png"), producerId: "p-1", seq: 9 }],
  "Produce, with a delay and a time to live": [
    "Produce",
    { topic: "images", payload: text("x"), delayMs: 5_000, ttlMs: 60_000 },
  ],
  ProduceMany: [
    "ProduceMany",
    { topic: "images", payloads: ["a", "", "c"].map(text), producerId: "p-1", seq: 10 },
  ],
  Ack: ["Ack", { topic: "images", group: "resize", leaseId: 2n ** 53n + 1n }],
  "NackMany, as dead letters": [
    "NackMany",
    { topic: "images", group: "resize", leaseIds: [7, 8], reason: "no such cat", deadLetter: true },
  ],
};

test("requests are written as by the broker's own codec", () => {
  const found = VECTORS.filter((one) => one.from === "client");
  assert.deepEqual(found.map((one) => one.name), Object.keys(MEANINGS));
  found.forEach(({ name, hex: frame }, index) => {
    assert.equal(encodeRequest(...MEANINGS[name], index + 1).toString("hex"), frame, name);
  });
});

test("what the broker's own codec has written is read", () => {
  const found = new Map(VECTORS.filter((one) => one.from === "broker").map((one) => [one.name, read(one.hex)]));
  assert.deepEqual(found.get("Produced").body, { offset: String(2n ** 53n + 1n) });
  const { code, leaderAddr } = found.get("Error, another node leads").body;
  assert.deepEqual([code, leaderAddr], ["not_leader", "10.0.0.2:1883"]);
  assert.equal(found.get("Error, later").body.retryAfterMs, 250);
});

function read(frame) {
  const bytes = hex(frame);
  return decodeResponse(bytes, 4, bytes.length);
}

test("responses are read with the defaults of absent fields", () => {
  assert.deepEqual(read("00000005 0a03 08ac02"), { kind: "Produced", body: { offset: "300" }, requestId: 0 });
  assert.equal(read("00000006 0a02 0808 7803").requestId, 3);
  const [item] = read("0000000d 120b 0a09 2a05 68656c6c6f 3001").body.items;
  assert.equal(item.payload.toString(), "hello");
  assert.deepEqual({ ...item, payload: 0 }, { leaseId: "0", offset: "0", priority: 0, contentType: 0, payload: 0, tsMs: "1", redeliveries: 0, headers: [] });
  const { code, retryAfterMs } = read("0000001a 2218 0a0c726174655f6c696d69746564 12056c61746572 20f403").body;
  assert.deepEqual([code, retryAfterMs], ["rate_limited", 500]);
});

test("64-bit numbers keep every bit, both ways", () => {
  for (const value of [0n, 127n, 128n, 2n ** 31n, 2n ** 32n + 5n, 2n ** 53n - 1n, 2n ** 53n + 1n, 2n ** 64n - 1n]) {
    const frame = encodeRequest("Commit", { topic: "t", group: "g", offset: value }, 0);
    const field = frame.subarray(frame.indexOf(0x18, 8) + 1); // behind the tag of offset
    const answer = Buffer.concat([hex("0a"), Buffer.from([field.length + 1]), hex("08"), field]);
    const { body } = decodeResponse(value === 0n ? hex("0a020800") : answer, 0, value === 0n ? 4 : answer.length);
    assert.equal(body.offset, String(value));
  }
});

test("unknown fields and kinds are skipped", () => {
  const known = decodeResponse(hex("f2070161 0a02 0805 a00601 7802"), 0, 13);
  assert.deepEqual([known.kind, known.body.offset, known.requestId], ["Produced", "5", 2]);
  assert.equal(decodeResponse(hex("f20700 7801"), 0, 5).kind, undefined);
});

test("a message that is cut off, or no message, is an error and no hang", () => {
  for (const bytes of ["0a", "0a05", "0a0208", "0b", "ffffffffffffffffffffff01", "0a7f08", "7a"]) {
    assert.throws(() => decodeResponse(hex(bytes), 0, bytes.length / 2), { code: "protocol" }, bytes);
  }
});

test("random bytes are read or refused, and nothing else", () => {
  let seed = 12345;
  const random = () => (seed = (seed * 1103515245 + 12345) & 0x7fff_ffff) >>> 8;
  for (let round = 0; round < 20_000; round++) {
    const bytes = Buffer.from(Array.from({ length: random() % 40 }, () => random() & 0xff));
    try {
      decodeResponse(bytes, 0, bytes.length);
    } catch (error) {
      assert.equal(error.code, "protocol");
    }
  }
});

test("frames are found wherever the bytes are cut", () => {
  const frames = hex("00000005 0a03 08ac02 00000002 1a00 0000000d 120b 0a09 2a05 68656c6c6f 3001");
  for (let size = 1; size <= frames.length; size++) {
    const reader = new FrameReader();
    const kinds = [];
    for (let at = 0; at < frames.length; at += size) {
      for (const response of reader.receive(frames.subarray(at, at + size))) kinds.push(response.kind);
    }
    assert.deepEqual(kinds, ["Produced", "Ok", "Polled"], `pieces of ${size}`);
  }
});

test("a frame of more than 64 MiB is refused before it is kept", () => {
  assert.throws(() => new FrameReader().receive(hex("04000001")), { code: "protocol" });
});

test("a large frame does not disturb those written before and after it", () => {
  const small = encodeRequest("Ping", {}, 1);
  const large = encodeRequest("Produce", { topic: "t", payload: Buffer.alloc(1 << 20, 7) }, 2);
  const after = encodeRequest("Ping", {}, 1);
  assert.equal(small.toString("hex"), after.toString("hex"));
  assert.equal(large.length, large.readUInt32BE(0) + 4);
});
