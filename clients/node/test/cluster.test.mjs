// Three nodes, of which one is named, and a leader that is killed.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { connect } from "../index.mjs";
import { Broker, freePort, until } from "./broker.mjs";
import { all, Collector, text, unique } from "./kit.mjs";

const nodes = [];
let folder;

before(async () => {
  folder = mkdtempSync(join(tmpdir(), "penstock-node-"));
  for (const id of [1, 2, 3]) {
    const [port, peer] = [await freePort(), await freePort()];
    const data = join(folder, String(id));
    const options = ["--node-id", String(id), "--peer-listen", `127.0.0.1:${peer}`];
    const node = new Broker(options, { data, port });
    Object.assign(node, { id, peerAddr: `127.0.0.1:${peer}` });
    nodes.push(node);
  }
  await Promise.all(nodes.map((node) => node.start()));
});

after(async () => {
  await Promise.all(nodes.map((node) => node.stop()));
  rmSync(folder, { recursive: true });
});

const addresses = () => nodes.map((node) => ({ id: node.id, clientAddr: node.address, peerAddr: node.peerAddr }));

test("connect with bootstrap forms a cluster of the nodes it is given", async () => {
  const client = await connect(addresses(), { bootstrap: true, timeoutMs: 60_000 });
  const { currentLeader } = await client.stats({ timeoutMs: 60_000 });
  assert.ok([1, 2, 3].includes(currentLeader));
  await client.close();
});

test("a client that knows a follower only is sent to the leader", async () => {
  const anyone = await connect(addresses());
  const { currentLeader } = await anyone.stats({ timeoutMs: 60_000 });
  const follower = nodes.find((node) => node.id !== currentLeader);
  const client = await connect([follower.address]);
  const topic = unique();
  assert.equal(await client.produce({ topic, body: "x" }), "0");
  const seen = new Collector();
  const subscription = client.subscribe({ topic, group: "g" }, (message) => seen.add(text(message)));
  assert.deepEqual(await seen.count(1), ["x"]);
  await subscription.unsubscribe();
  await Promise.all([client.close(), anyone.close()]);
});

test("when the leader is killed nothing acknowledged is lost and nothing is stored twice", async () => {
  const client = await connect(addresses(), { timeoutMs: 120_000 });
  const topic = unique();
  const handled = new Collector();
  const subscription = client.subscribe({ topic, group: "g" }, (message) => handled.add(text(message)), () => undefined);
  const stored = new Collector();
  const calls = [];
  const produce = () =>
    calls.push(client.produce({ topic, body: String(calls.length) }).then((offset) => stored.add(offset)));
  for (let index = 0; index < 200; index++) produce();
  await stored.count(100);
  const { currentLeader } = await client.stats();
  const leader = nodes.find((node) => node.id === currentLeader);
  for (let index = 0; index < 200; index++) produce();
  await leader.kill();
  for (let index = 0; index < 200; index++) produce();
  await Promise.all(calls);
  const bodies = (await all(client.messages({ topic }))).map((record) => Number(text(record)));
  assert.deepEqual(bodies, Array.from({ length: 600 }, (_, index) => index));
  await handled.count(600);
  await until(async () => (await client.groups({ topic }))[0].lag === 0);
  await subscription.unsubscribe();
  assert.deepEqual([handled.items.length, new Set(handled.items).size], [600, 600]);
  await leader.start();
  await client.close();
});
