// Lost connections, crashes of the broker: nothing acknowledged is lost, nothing is stored twice.
import assert from "node:assert/strict";
import { connect as dial, createServer } from "node:net";
import { test } from "node:test";

import { connect } from "../index.mjs";
import { Broker, freePort, startBroker } from "./broker.mjs";
import { all, Collector, once, promised, rejects, text, unique } from "./kit.mjs";

/** A proxy in front of a broker that cuts, swallows or chops what passes. */
class Proxy {
  constructor(port) {
    this.target = port;
    this.pairs = new Set();
    this.isSilent = false;
    this.piece = Infinity;
    this.server = createServer((near) => this.join(near));
  }

  async listen() {
    this.server.listen(0, "127.0.0.1");
    await once(this.server, "listening");
    return this;
  }

  get address() {
    return `127.0.0.1:${this.server.address().port}`;
  }

  join(near) {
    const far = dial(this.target, "127.0.0.1");
    const pair = [near, far];
    this.pairs.add(pair);
    const end = () => (near.destroy(), far.destroy(), this.pairs.delete(pair));
    const pass = (to) => (chunk) => {
      if (this.isSilent) return;
      for (let at = 0; at < chunk.length; at += this.piece) to.write(chunk.subarray(at, at + this.piece));
    };
    near.on("data", pass(far)).on("close", end).on("error", end);
    far.on("data", pass(near)).on("close", end).on("error", end);
  }

  cut() {
    for (const [near, far] of [...this.pairs]) (near.resetAndDestroy(), far.destroy());
  }

  async close() {
    this.cut();
    this.server.close();
  }
}

async function withProxy(work) {
  const broker = await startBroker();
  const proxy = await new Proxy(broker.port).listen();
  try {
    await work(proxy, broker);
  } finally {
    await proxy.close();
    await broker.stop();
  }
}

test("over thirty cuts every message is stored once, in the order of the calls", () =>
  withProxy(async (proxy) => {
    const topic = unique();
    const client = await connect([proxy.address]);
    const stored = [];
    for (let cut = 0; cut < 30; cut++) {
      const calls = Array.from({ length: 40 }, (_, index) =>
        client.produce({ topic, body: String(cut * 40 + index) }),
      );
      await calls[cut]; // some are answered, some under way
      proxy.cut();
      stored.push(...(await Promise.all(calls)));
    }
    const bodies = (await all(client.messages({ topic }))).map(text);
    assert.deepEqual(bodies, Array.from({ length: 1_200 }, (_, index) => String(index)));
    assert.deepEqual(stored, bodies);
    await client.close();
  }));

test("a subscription goes on after cuts, and no message is handled twice at a time", () =>
  withProxy(async (proxy, broker) => {
    const topic = unique();
    const direct = await connect([broker.address]);
    const client = await connect([proxy.address]);
    await direct.produceMany(Array.from({ length: 300 }, (_, index) => ({ topic, body: String(index) })));
    const seen = new Collector();
    const running = new Set();
    const subscription = client.subscribe(
      { topic, group: "g", prefetch: 8 },
      async (message) => {
        assert.ok(!running.has(message.offset), "it is with a handler already");
        running.add(message.offset);
        if (seen.items.length % 40 === 39) proxy.cut();
        await new Promise(setImmediate);
        running.delete(message.offset);
        seen.add(message.offset);
      },
      (error) => assert.equal(error.code, "connection_lost"),
    );
    await seen.count(300);
    await subscription.unsubscribe();
    assert.equal(new Set(seen.items).size, 300);
    assert.deepEqual(await direct.poll({ topic, group: "g", waitMs: 300 }), []);
    await Promise.all([client.close(), direct.close()]);
  }));

test("a job that is done while there is no connection is acknowledged on the next one", () =>
  withProxy(async (proxy, broker) => {
    const topic = unique();
    const direct = await connect([broker.address]);
    const client = await connect([proxy.address]);
    await direct.produce({ topic, body: "x" });
    const begun = promised();
    const lost = promised();
    const seen = [];
    const subscription = client.subscribe(
      { topic, group: "g" },
      async (message) => {
        seen.push(message.offset);
        begun.resolve();
        await lost.promise;
      },
      () => lost.resolve(),
    );
    await begun.promise;
    proxy.cut();
    await lost.promise;
    while ((await direct.groups({ topic }))[0].lag > 0);
    assert.deepEqual(seen, ["0"]);
    await subscription.unsubscribe();
    await Promise.all([client.close(), direct.close()]);
  }));

test("bytes one by one are the same messages", () =>
  withProxy(async (proxy) => {
    proxy.piece = 1;
    const topic = unique();
    const client = await connect([proxy.address]);
    await client.produceMany([{ topic, body: "a" }, { topic, body: "b", headers: { k: "v" } }]);
    assert.deepEqual((await client.poll({ topic, group: "g" })).map(text), ["a", "b"]);
    await client.close();
  }));

test("a broker that falls silent is left after some seconds, and calls go to the next address", () =>
  withProxy(async (proxy, broker) => {
    const client = await connect([proxy.address, broker.address]);
    proxy.isSilent = true;
    const begun = performance.now();
    assert.equal(await client.produce({ topic: unique(), body: "x" }), "0");
    const tookMs = performance.now() - begun;
    assert.ok(tookMs > 3_000 && tookMs < 9_500, `${tookMs} ms`);
    await client.close();
  }));

test("a poll in auto mode is not repeated: its lost answer had jobs that count as done", () =>
  withProxy(async (proxy) => {
    const client = await connect([proxy.address]);
    const polling = client.poll({ topic: unique(), group: "g", waitMs: 60_000, ackMode: "auto" });
    await client.stats();
    proxy.cut();
    await rejects(polling, "connection_lost");
    await client.close();
  }));

test("a call that is not answered in time says so", () =>
  withProxy(async (proxy) => {
    const client = await connect([proxy.address]);
    proxy.isSilent = true;
    await rejects(client.produce({ topic: unique(), body: "x", timeoutMs: 200 }), "timeout");
    await client.close();
  }));

test("an event loop that was blocked longer than a call may take does not fail the call", async () => {
  const broker = await startBroker();
  const client = await connect([broker.address], { timeoutMs: 1_000 });
  const stored = client.produce({ topic: unique(), body: "x" });
  await new Promise(setImmediate);
  const until = performance.now() + 1_500;
  while (performance.now() < until); // as a program does that computes
  assert.equal(await stored, "0");
  await client.close();
  await broker.stop();
});

test("over kills of the broker nothing acknowledged is lost, nothing stored or handled twice", async () => {
  const port = await freePort();
  const broker = await new Broker([], { port }).start();
  const client = await connect([broker.address], { timeoutMs: 60_000 });
  const topic = unique();
  const handled = new Collector();
  const subscription = client.subscribe({ topic, group: "g" }, (message) => handled.add(text(message)), () => undefined);
  let made = 0;
  for (let kill = 0; kill < 4; kill++) {
    const calls = Array.from({ length: 200 }, () => client.produce({ topic, body: String(made++) }));
    await calls[50 * kill];
    await broker.kill();
    await broker.start();
    const offsets = await Promise.all(calls);
    assert.deepEqual(offsets, Array.from({ length: 200 }, (_, index) => String(kill * 200 + index)));
  }
  await handled.count(made);
  await subscription.unsubscribe();
  assert.deepEqual([...handled.items].map(Number).sort((a, b) => a - b), Array.from({ length: made }, (_, i) => i));
  await client.close();
  await broker.stop();
});
