// Envelopes: made here, verified by the broker, and the other way round.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { connect as dial } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { connect, openEnvelope, signEnvelope, verifySignature } from "../index.mjs";
import { startBroker, tell } from "./broker.mjs";
import { all, once, text } from "./kit.mjs";

const VECTORS = JSON.parse(readFileSync(new URL("../../vectors.json", import.meta.url), "utf8"));

let broker;
let client;
let folder;
let key;

before(async () => {
  folder = mkdtempSync(join(tmpdir(), "penstock-node-"));
  broker = await startBroker();
  await tell("keys", "new", "pump7", "--topics", "secure/pump7/*", "--out", folder, "--port", String(broker.port));
  key = JSON.parse(readFileSync(join(folder, "pump7.key.json"), "utf8"));
  client = await connect([broker.address]);
});

after(async () => {
  await client?.close();
  await broker?.stop();
  rmSync(folder, { recursive: true, force: true });
});

/** Publish by the Redis protocol, as a client of that would; return the reply's first line. */
async function publish(topic, payload) {
  const socket = dial(broker.port, "127.0.0.1");
  const part = (bytes) => Buffer.concat([Buffer.from(`$${bytes.length}\r\n`), bytes, Buffer.from("\r\n")]);
  const parts = ["PUBLISH", topic, payload].map((one) => part(Buffer.from(one)));
  socket.write(Buffer.concat([Buffer.from("*3\r\n"), ...parts]));
  const [reply] = await once(socket, "data");
  socket.destroy();
  return reply.toString().split("\r\n")[0];
}

for (const version of [1, 2]) {
  test(`the broker accepts an envelope of version ${version}, and messages() has a signature that verifies`, async () => {
    const signed = signEnvelope(key, `secure/pump7/v${version}`, "4.2", { version });
    assert.match(await publish(signed.topic, signed.payload), /^:/);
    let records = [];
    while (records.length === 0) records = await all(client.messages({ topic: `secure/pump7/v${version}` }));
    const [record] = records;
    const [{ id, publicKey }] = await client.keys();
    assert.deepEqual([text(record), record.signature.version, record.signature.keyId], ["4.2", version, id]);
    assert.equal(verifySignature(publicKey, record), true);
    assert.equal(verifySignature(publicKey, { ...record, payload: Buffer.from("4.3") }), false);
  });
}

test("the broker refuses an envelope that was changed, or made for another topic", async () => {
  const signed = signEnvelope(key, "secure/pump7/bar", "4.2");
  const changed = Buffer.from(signed.payload);
  changed[changed.length - 1] ^= 1;
  assert.match(await publish(signed.topic, changed), /^-/);
  assert.match(await publish("$signed/secure/pump7/foo", signed.payload), /^-/);
});

test("an opened envelope is what was signed", () => {
  const signed = signEnvelope(key, "secure/pump7/bar", Buffer.from("4.2"), { timeMs: 1_800_000_000_000 });
  const opened = openEnvelope(signed.topic, signed.payload);
  assert.deepEqual([opened.topic, text(opened), opened.signature.signedMs], ["secure/pump7/bar", "4.2", "1800000000000"]);
  assert.throws(() => openEnvelope(signed.topic, signed.payload.subarray(0, 50)), { code: "bad_argument" });
});

test("the envelopes of the vectors for all clients verify, and are made byte for byte", () => {
  const secret = "6f1c0b7a52d94e8830a7c4f5e2961d3b874a0ee95bd62c71f8a3940d65be12c7";
  const publicKey = Buffer.from("b1c5e23c6582b0d286b130f083d1db3f966369915299c29333f51c285364acdc", "hex");
  assert.deepEqual(VECTORS.envelopes.map((one) => one.version), [1, 2]);
  for (const { topic, payload } of VECTORS.envelopes) {
    const opened = openEnvelope(Buffer.from(topic, "hex").toString(), Buffer.from(payload, "hex"));
    assert.equal(verifySignature(publicKey, opened), true);
  }
  const made = signEnvelope({ key_id: 7, secret_key: secret }, "secure/pump7/bar", "4.2", { version: 1 });
  assert.equal(made.payload.toString("hex"), VECTORS.envelopes[0].payload);
});
