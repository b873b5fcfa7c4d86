// Every method, against a real broker.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { connect, PenstockError } from "../index.mjs";
import { startBroker, until } from "./broker.mjs";
import { all, rejects, text, unique } from "./kit.mjs";

let broker;
let client;

before(async () => {
  broker = await startBroker();
  client = await connect([broker.address]);
});

after(async () => {
  await client?.close();
  await broker?.stop();
});

/** Dead letters; the broker writes them a moment after the nack was answered. */
function letters(group) {
  return until(async () => {
    const found = await all(client.deadLetters(group));
    return found.length > 0 && found;
  });
}

test("a message has the seed's shape: ids are text, the payload is a Buffer", async () => {
  const topic = unique();
  assert.equal(await client.produce({ topic, body: Buffer.from("hello"), priority: 3 }), "0");
  const [message, ...rest] = await client.poll({ topic, group: "g" });
  assert.deepEqual(rest, []);
  const { leaseId, offset, priority, contentType, payload, tsMs } = message;
  assert.deepEqual([offset, priority, contentType, payload.toString()], ["0", 3, 0, "hello"]);
  assert.match(leaseId, /^\d+$/);
  assert.ok(Math.abs(Number(tsMs) - Date.now()) < 60_000);
  await client.ack({ topic, group: "g", leaseId });
  assert.deepEqual(await client.poll({ topic, group: "g" }), []);
});

test("headers, content type and text arrive as they were given", async () => {
  const topic = unique();
  const headers = { to: "ada", raw: Buffer.from([0, 255]) };
  await client.produce({ topic, body: "grüße", contentType: "json", headers });
  const [message] = await client.poll({ topic, group: "g" });
  assert.deepEqual([text(message), message.contentType], ["grüße", 2]);
  assert.deepEqual(
    message.headers.map(({ name, value }) => [name, value.toString("hex")]),
    [["to", "616461"], ["raw", "00ff"]],
  );
});

test("a delayed message comes later, an expired one never", async () => {
  const topic = unique();
  const begun = Date.now();
  await client.produce({ topic, body: "later", delayMs: 300 });
  await client.produce({ topic, body: "gone", ttlMs: 1, delayMs: 100 });
  assert.deepEqual(await client.poll({ topic, group: "g" }), []);
  const found = await client.poll({ topic, group: "g", waitMs: 20_000 });
  assert.deepEqual(found.map(text), ["later"]);
  assert.ok(Date.now() - begun >= 300);
});

test("a repeated producerId and seq is stored once", async () => {
  const topic = unique();
  const message = { topic, body: "x", producerId: "billing", seq: 2n ** 60n };
  assert.equal(await client.produce(message), "0");
  assert.equal(await client.produce(message), "0");
  assert.equal((await client.topic({ topic })).endOffset, "1");
});

test("a producerId without a seq is a mistake, and so is a seq alone", async () => {
  await rejects(client.produce({ topic: "t", body: "", producerId: "p" }), "bad_argument");
  await rejects(client.produce({ topic: "t", body: "", seq: 1 }), "bad_argument");
  await rejects(client.produce({ topic: "t", body: "", producerId: "p", seq: -1 }), "bad_argument");
});

test("produceMany returns offsets and errors in the order of the messages", async () => {
  const topic = unique();
  const items = Array.from({ length: 1_000 }, (_, index) => ({ topic, body: `${index}`, priority: index % 3 }));
  items[500] = { topic: "no/+/wildcards", body: "" };
  items[700] = { topic, body: Buffer.alloc((1 << 20) + 1) };
  items[800] = { topic, body: "", priority: 8 };
  const results = await client.produceMany(items);
  assert.equal(results.length, 1_000);
  assert.deepEqual([500, 700, 800].map((index) => results[index].error.code), ["bad_request", "payload_too_large", "bad_argument"]);
  const offsets = results.filter((result) => result.offset !== undefined).map((result) => Number(result.offset));
  assert.deepEqual(offsets, Array.from({ length: 997 }, (_, index) => index));
});

test("produceMany takes no more of a source than the broker has room for", async () => {
  const topic = unique();
  let [made, stored, ahead] = [0, 0, 0];
  async function* source() {
    for (; made < 10_000; made++) {
      ahead = Math.max(ahead, made - stored);
      yield { topic, body: String(made) };
    }
  }
  const results = await client.produceMany(source(), { onResult: () => stored++ });
  assert.deepEqual([results.length, stored], [0, 10_000]);
  assert.ok(ahead <= 9 * 256 + 1, `${ahead} ahead`);
});

test("produceMany does not wait for more of a slow source", async () => {
  const topic = unique();
  async function* source() {
    yield { topic, body: "first" };
    const [message] = await client.poll({ topic, group: "g", waitMs: 20_000 });
    yield { topic, body: `after ${text(message)}` };
  }
  assert.deepEqual(await client.produceMany(source()), [{ offset: "0" }, { offset: "1" }]);
});

test("a source that fails ends produceMany with its error", async () => {
  function* source() {
    yield { topic: unique(), body: "" };
    throw new RangeError("the file ends here");
  }
  await assert.rejects(client.produceMany(source()), RangeError);
});

test("a long poll delays no other call, and wakes for a message", async () => {
  const topic = unique();
  const waiting = client.poll({ topic, group: "g", waitMs: 60_000 });
  await client.stats();
  await client.produce({ topic, body: "now" });
  assert.deepEqual((await waiting).map(text), ["now"]);
});

test("many leases are settled at once; nack gives back with delay and reason", async () => {
  const topic = unique();
  await client.configureGroup({ topic, group: "g", maxDeliveries: 1 });
  await client.produceMany(["a", "b", "c"].map((body) => ({ topic, body })));
  const messages = await client.poll({ topic, group: "g" });
  await client.ack(messages.slice(0, 2));
  await client.nack(messages.slice(2), { reason: "no decoder" });
  const [letter] = await letters({ topic, group: "g" });
  assert.equal(text(letter), "c");
  const reason = letter.headers.find((header) => header.name === "dlq-reason");
  assert.equal(reason.value.toString(), "no decoder");
  assert.equal(await client.redrive({ topic, group: "g" }), 1);
  assert.deepEqual((await client.poll({ topic, group: "g" })).map(text), ["c"]);
  assert.deepEqual(await all(client.deadLetters({ topic, group: "g" })), []);
});

test("extend lengthens a lease; an ack of one that another has is lease_lost", async () => {
  const topic = unique();
  await client.produce({ topic, body: "slow" });
  const [lost] = await client.poll({ topic, group: "g", visibilityMs: 50 });
  const [again] = await client.poll({ topic, group: "g", waitMs: 20_000, visibilityMs: 50 });
  assert.equal(again.redeliveries, 1);
  await client.extend(again, { visibilityMs: 60_000 });
  await assert.rejects(client.ack([lost]), (error) => {
    assert.deepEqual(error.leases, [{ topic, group: "g", leaseId: lost.leaseId }]);
    return error instanceof PenstockError && error.code === "lease_lost";
  });
  await client.ack(again);
  await assert.rejects(client.ack(again), /lease_lost: the lease is over: .*settled before/);
});

test("commit, seek and groups move and show a group", async () => {
  const topic = unique();
  await client.createGroup({ topic, group: "g" });
  await client.produceMany(["a", "b", "c", "d"].map((body) => ({ topic, body })));
  await client.configureTopic({ topic, keep: true });
  await client.commit({ topic, group: "g", offset: 2 });
  const [group] = await client.groups({ topic });
  assert.deepEqual([group.position, group.lag], ["2", 2]);
  await client.seek({ topic, group: "g", start: "3" });
  assert.deepEqual((await client.poll({ topic, group: "g" })).map(text), ["d"]);
  await client.deleteGroup({ topic, group: "g" });
  assert.deepEqual(await client.groups({ topic }), []);
});

test("a group begins where start says", async () => {
  const topic = unique();
  await client.produce({ topic, body: "old" });
  assert.deepEqual(await client.poll({ topic, group: "late", start: "latest" }), []);
  const found = await client.poll({ topic, group: "since", start: new Date(0) });
  assert.deepEqual(found.map(text), ["old"]);
  await rejects(client.poll({ topic, group: "g", start: "middle" }), "bad_argument");
});

test("createTopic, configureTopic, setRateLimit and setRetention set what topic shows", async () => {
  const topic = unique();
  await client.createTopic({ topic, rateLimit: { ratePerSec: 100, burst: 200 }, retention: { maxMessages: 1_000_000, maxAgeMs: 86_400_000 } });
  let found = await client.topic({ topic });
  assert.deepEqual([found.ratePerSec, found.burst, found.maxMessages, found.maxAgeMs], [100, 200, 1_000_000, 86_400_000]);
  await client.setRateLimit({ topic, ratePerSec: 0.5 });
  await client.setRetention({ topic, maxBytes: 1 << 20 });
  await client.configureTopic({ topic, keep: true });
  found = await client.topic({ topic });
  assert.deepEqual([found.ratePerSec, found.maxMessages, found.maxBytes, found.keep], [0.5, 0, 1 << 20, true]);
  const [listed] = await client.topics({ prefix: topic });
  assert.deepEqual(listed, found);
  await client.deleteTopic({ topic });
  assert.equal(await client.topic({ topic }), null);
});

test("rate_limited says when to come back", async () => {
  const topic = unique();
  await client.createTopic({ topic, rateLimit: { ratePerSec: 0.01 } });
  await client.produceMany(["a", "b"].map((body) => ({ topic, body })));
  assert.equal((await client.poll({ topic, group: "g" })).length, 1);
  await assert.rejects(client.poll({ topic, group: "g" }), (error) => {
    assert.match(error.message, /^rate_limited: .*retry after/);
    return error.code === "rate_limited" && error.retryAfterMs > 0;
  });
});

test("messages and fetch read without taking, with headers and gaps in order", async () => {
  const topic = unique();
  const items = Array.from({ length: 500 }, (_, index) => ({ topic, body: `${index}`, priority: index % 8 }));
  items[3].headers = { k: "v" };
  items[4].contentType = "msgpack";
  await client.produceMany(items);
  const records = await all(client.messages({ topic, offset: 2, endOffset: 400 }));
  assert.deepEqual(records.map(text), items.slice(2, 400).map((item) => item.body));
  assert.deepEqual(records.map((record) => record.offset), items.slice(2, 400).map((_, index) => `${index + 2}`));
  assert.deepEqual(records.map((record) => record.priority), items.slice(2, 400).map((item) => item.priority));
  assert.deepEqual([records[1].headers[0].value.toString(), records[2].contentType], ["v", 3]);
  const slices = await all(client.fetch({ topic }));
  assert.equal(slices.reduce((sum, slice) => sum + slice.count, 0), 500);
  assert.equal((await client.groups({ topic })).length, 0);
});

test("locate, changes, keys and stats answer", async () => {
  const topic = unique("changing");
  const { sequence } = await client.changes({ filters: ["changing/#"] });
  const waiting = client.changes({ filters: ["changing/#"], afterSequence: sequence, waitMs: 60_000 });
  await client.produce({ topic, body: "12345" });
  assert.deepEqual((await waiting).topics.map((one) => one.name), [topic]);
  const located = await client.locate({ topic, timesMs: [0], measures: [{ offset: 0, bytes: 100 }] });
  assert.deepEqual([located.offsets, located.reaches], [["0"], ["1"]]);
  assert.deepEqual(await client.keys(), []);
  const { isLeader, currentLeader, lastApplied } = await client.stats();
  assert.deepEqual([isLeader, currentLeader, typeof lastApplied], [true, 1, "string"]);
});

test("an abort rejects at once, and leaves no listener behind", async () => {
  const controller = new AbortController();
  const topic = unique();
  let listeners = 0;
  const { signal } = controller;
  const [add, remove] = [signal.addEventListener.bind(signal), signal.removeEventListener.bind(signal)];
  signal.addEventListener = (...args) => (listeners++, add(...args));
  signal.removeEventListener = (...args) => (listeners--, remove(...args));
  await client.produce({ topic, body: "", signal });
  assert.equal(listeners, 0);
  const waiting = client.poll({ topic: unique(), group: "g", waitMs: 60_000, signal });
  controller.abort(new Error("enough"));
  await assert.rejects(waiting, /enough/);
  assert.equal(listeners, 0);
  await assert.rejects(client.produce({ topic, body: "", signal }), /enough/);
  assert.equal((await client.topic({ topic })).endOffset, "1");
});

test("more requests than the broker reads ahead, and than fit, are all answered in order", async () => {
  const topic = unique();
  const body = Buffer.alloc(20_000);
  const offsets = await Promise.all(Array.from({ length: 3_000 }, () => client.produce({ topic, body })));
  assert.deepEqual(offsets, Array.from({ length: 3_000 }, (_, index) => String(index)));
});

test("names of dead letter topics are those of the broker", async () => {
  const topic = unique();
  const group = "a b/ü!'()*~";
  await client.configureGroup({ topic, group, maxDeliveries: 1 });
  await client.produce({ topic, body: "bad" });
  await client.nack(await client.poll({ topic, group }));
  assert.deepEqual((await letters({ topic, group })).map(text), ["bad"]);
});

test("mistakes are told before anything is sent", async () => {
  await rejects(client.produce({ topic: "", body: "" }), "bad_argument");
  await rejects(client.produce({ topic: "t", body: 5 }), "bad_argument");
  await rejects(client.poll({ topic: "t", group: "g", visibilityMs: 0 }), "bad_argument");
  await rejects(client.ack({ topic: "t", group: "g", leaseId: "x" }), "bad_argument");
  await rejects(connect([]), "bad_argument");
  await rejects(connect(["localhost"]), "bad_argument");
  assert.throws(() => client.subscribe({ topic: "t", group: "" }, () => undefined), { code: "bad_argument" });
});
