// How fast the client is: node bench/bench.mjs HOST:PORT produce|many|push [count]. Prints one line of JSON.
// 100-byte payloads; everything is on the broker's disk before it counts.
import { connect } from "../index.mjs";

const [address, what, given] = process.argv.slice(2);
const client = await connect([address], { timeoutMs: 60_000 });
const topic = `bench/${process.pid}`;
const body = Buffer.alloc(100, "x");

function* items(count) {
  for (let index = 0; index < count; index++) yield { topic, body };
}

const MEASURES = {
  /** 32 produces are under way, each its own call. */
  async produce(count) {
    let left = count;
    const lane = async () => {
      while (left-- > 0) await client.produce({ topic, body });
    };
    await Promise.all(Array.from({ length: 32 }, lane));
  },

  async many(count) {
    await client.produceMany(items(count));
  },

  /** A backlog is pushed to one consumer, 64 ahead, each message acknowledged. */
  async push(count) {
    let left = count;
    let end;
    const done = new Promise((resolve) => (end = resolve));
    const work = client.subscribe({ topic, group: "g", concurrency: 64 }, () => {
      if (--left === 0) end();
    });
    await done;
    return work;
  },
};

const count = Number(given ?? { produce: 100_000, many: 400_000, push: 100_000 }[what]);
if (what === "push") await client.produceMany(items(count));
else await MEASURES[what](2_000); // the compiler of V8 warms up
const before = process.cpuUsage();
const begun = performance.now();
await MEASURES[what](count);
const seconds = (performance.now() - begun) / 1_000;
const { user, system } = process.cpuUsage(before);
const cpuUs = Number(((user + system) / count).toFixed(2));
console.log(JSON.stringify({ what, perSecond: Math.round(count / seconds), cpuUs }));
await client.close();
