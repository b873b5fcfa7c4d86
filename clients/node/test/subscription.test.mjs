// Pushed messages, against a real broker.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { connect, DeadLetter, Retry } from "../index.mjs";
import { startBroker, until } from "./broker.mjs";
import { Collector, promised, rejects, text, unique } from "./kit.mjs";

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

const bodies = (topic, count) => Array.from({ length: count }, (_, index) => ({ topic, body: String(index) }));

/** The group, once it has so much left and nothing in flight: what was acknowledged is on its way. */
function groupWith(lag, topic) {
  return until(async () => {
    const group = (await client.groups({ topic })).find((found) => found.name === "g");
    return group.lag === lag && group.inFlight === 0 && group;
  });
}

test("messages are acknowledged when the handler returns, sync or async", async () => {
  const topic = unique();
  await client.produceMany(bodies(topic, 100));
  const seen = new Collector();
  const subscription = client.subscribe({ topic, group: "g" }, async (message) => {
    if (message.offset % 2) await null;
    seen.add(text(message));
  });
  assert.deepEqual((await seen.count(100)).map(Number).sort((a, b) => a - b), bodies(topic, 100).map((_, i) => i));
  await subscription.unsubscribe();
  assert.equal((await groupWith(0, topic)).redeliveries, 0);
});

test("no more handlers run at once than concurrency says", async () => {
  const topic = unique();
  await client.produceMany(bodies(topic, 60));
  let [running, most] = [0, 0];
  const seen = new Collector();
  const subscription = client.subscribe({ topic, group: "g", concurrency: 4, prefetch: 32 }, async (message) => {
    most = Math.max(most, ++running);
    await new Promise(setImmediate);
    running--;
    seen.add(message);
  });
  await seen.count(60);
  assert.equal(most, 4);
  await subscription.unsubscribe();
});

test("a message comes back when its handler fails, and onError is told", async () => {
  const topic = unique();
  await client.produce({ topic, body: "x" });
  const seen = new Collector();
  const errors = new Collector();
  const subscription = client.subscribe(
    { topic, group: "g" },
    (message) => {
      seen.add(message);
      if (message.redeliveries === 0) throw new TypeError("the first time");
    },
    (error, message) => errors.add([error.message, message.offset]),
  );
  const [first, second] = await seen.count(2);
  assert.deepEqual([first.offset, second.offset, second.redeliveries], ["0", "0", 1]);
  assert.deepEqual(errors.items, [["the first time", "0"]]);
  await subscription.unsubscribe();
});

test("Retry hands a message out again when it says, and is no failure to report", async () => {
  const topic = unique();
  await client.produce({ topic, body: "x" });
  const seen = new Collector();
  const subscription = client.subscribe(
    { topic, group: "g" },
    (message) => {
      seen.add([message.redeliveries, performance.now()]);
      if (message.redeliveries === 0) throw new Retry("not yet", { delayMs: 300 });
    },
    (error) => assert.fail(error),
  );
  const [[, first], [redeliveries, second]] = await seen.count(2);
  assert.equal(redeliveries, 1);
  assert.ok(second - first >= 290, `${second - first} ms`);
  await subscription.unsubscribe();
});

test("DeadLetter ends a message at its first attempt, in a subscription and by nack", async () => {
  const topic = unique();
  await client.produceMany([1, 2, 3].map((number) => ({ topic, body: `${number}` })));
  const [first] = await client.poll({ topic, group: "g", max: 1 });
  await client.nack(first, { reason: "no such pump", deadLetter: true });
  const seen = new Collector();
  const subscription = client.subscribe(
    { topic, group: "g" },
    (message) => {
      seen.add([message.payload.toString(), message.redeliveries]);
      if (message.offset === "1") throw new DeadLetter("no such customer");
    },
    (error) => assert.fail(error),
  );
  assert.deepEqual(await seen.count(2), [["2", 0], ["3", 0]]);
  await subscription.unsubscribe();
  const letters = [];
  while (letters.length < 2) {
    letters.length = 0;
    for await (const { payload, headers } of client.deadLetters({ topic, group: "g" })) {
      const by = Object.fromEntries(headers.map(({ name, value }) => [name, value.toString()]));
      letters.push([payload.toString(), by["dlq-reason"], by["dlq-attempts"]]);
    }
  }
  assert.deepEqual(letters, [["1", "no such pump", "1"], ["2", "no such customer", "1"]]);
});

test("a failed handler without onError is a process warning, not a crash", async () => {
  const topic = unique();
  await client.produce({ topic, body: "x" });
  const warned = promised();
  const listen = (warning) => warning.name === "PenstockWarning" && warned.resolve(warning.message);
  process.on("warning", listen);
  const subscription = client.subscribe({ topic, group: "g" }, async () => {
    throw new Error("no disk");
  });
  assert.match(await warned.promise, /no disk/);
  process.off("warning", listen);
  await subscription.unsubscribe();
});

test("unsubscribe waits for handlers that run, and gives the others back", async () => {
  const topic = unique();
  await client.produceMany(bodies(topic, 10));
  const begun = promised();
  const mayEnd = promised();
  const subscription = client.subscribe({ topic, group: "g", concurrency: 1, prefetch: 5 }, async () => {
    begun.resolve();
    await mayEnd.promise;
  });
  await begun.promise;
  let hasEnded = false;
  const ended = subscription.unsubscribe().then(() => (hasEnded = true));
  await client.stats();
  assert.equal(hasEnded, false);
  mayEnd.resolve();
  await ended;
  assert.equal((await groupWith(9, topic)).position, "1");
});

test("a slow handler keeps its message: its lease is extended", async () => {
  const topic = unique();
  await client.produce({ topic, body: "slow" });
  const seen = new Collector();
  const mayEnd = promised();
  const subscription = client.subscribe({ topic, group: "g", visibilityMs: 200 }, async (message) => {
    seen.add(message);
    await mayEnd.promise;
  });
  await seen.count(1);
  const others = await client.poll({ topic, group: "g", waitMs: 1_500 }); // over three times the visibility
  assert.deepEqual(others, []);
  mayEnd.resolve();
  await subscription.unsubscribe();
  await groupWith(0, topic);
  assert.equal(seen.items.length, 1);
});

test("in auto mode each message comes once, also those that were on their way at the end", async () => {
  const topic = unique();
  await client.produceMany(bodies(topic, 2_000));
  const seen = [];
  const enough = promised();
  const subscription = client.subscribe({ topic, group: "g", ackMode: "auto", prefetch: 8 }, async (message) => {
    await null;
    if (seen.push(Number(text(message))) === 50) enough.resolve();
  });
  await enough.promise;
  await subscription.unsubscribe();
  const rest = await client.poll({ topic, group: "g", max: 1_024 });
  const more = await client.poll({ topic, group: "g", max: 1_024 });
  const all = [...seen, ...[...rest, ...more].map((message) => Number(text(message)))];
  assert.equal(new Set(all).size, all.length);
  assert.ok(seen.length >= 50);
  await client.nack([...rest, ...more]);
  await groupWith(2_000 - seen.length, topic);
});

test("a subscription that is refused for good says so, and ends", async () => {
  const errors = new Collector();
  const subscription = client.subscribe({ topic: "no/#", group: "g" }, () => undefined, (error) => errors.add(error.code));
  await rejects(subscription.wait(), "bad_request");
  assert.deepEqual(errors.items, ["bad_request"]);
});

test("an aborted signal ends a subscription", async () => {
  const controller = new AbortController();
  const subscription = client.subscribe({ topic: unique(), group: "g", signal: controller.signal }, () => undefined);
  controller.abort();
  await subscription.wait();
});

test("for await acknowledges when the loop goes on, and break gives the last one back", async () => {
  const topic = unique();
  await client.produceMany(bodies(topic, 40));
  const seen = [];
  for await (const message of client.consume({ topic, group: "g" })) {
    seen.push(text(message));
    if (seen.length === 10) break;
  }
  assert.deepEqual(seen, bodies(topic, 10).map((one) => one.body));
  assert.equal((await groupWith(31, topic)).position, "9");
});

test("an error in the loop gives the message back and is the loop's error", async () => {
  const topic = unique();
  await client.produce({ topic, body: "x" });
  const loop = async () => {
    for await (const message of client.consume({ topic, group: "g" })) throw new Error(`bad ${text(message)}`);
  };
  await assert.rejects(loop(), /bad x/);
  await groupWith(1, topic);
});

test("a loop over a refused topic fails with the broker's code", async () => {
  const loop = async () => {
    for await (const _ of client.consume({ topic: "no/#", group: "g", onError: () => undefined }));
  };
  await rejects(loop(), "bad_request");
});

test("two subscriptions of a group share its messages", async () => {
  const topic = unique();
  const seen = new Collector();
  const handlers = [0, 1].map((who) => (message) => seen.add([who, message.offset]));
  const both = handlers.map((handler) => client.subscribe({ topic, group: "g" }, handler));
  await client.produceMany(bodies(topic, 500));
  await seen.count(500);
  await Promise.all(both.map((one) => one.unsubscribe()));
  assert.equal(new Set(seen.items.map(([, offset]) => offset)).size, 500);
});

test("a blocked event loop is told, and its jobs are done once", async () => {
  const topic = unique();
  await client.produce({ topic, body: "x" });
  const errors = new Collector();
  const seen = [];
  const subscription = client.subscribe(
    { topic, group: "g", visibilityMs: 400 },
    async (message) => {
      seen.push(message.offset);
      await new Promise(setImmediate);
      const until = performance.now() + 1_000;
      while (performance.now() < until); // as a program does that computes
      await errors.count(1);
    },
    (error) => errors.add(error.code),
  );
  assert.deepEqual(await errors.count(1), ["blocked"]);
  await subscription.unsubscribe();
  assert.deepEqual(seen, ["0"]);
  await groupWith(0, topic);
});
