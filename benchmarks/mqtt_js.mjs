// MQTT.js as the driver: node mqtt_js.mjs FOLDER HOST:PORT COUNT, where the folder has it installed.
// QoS 1, 32 B, 32 unanswered. Prints one line of JSON, as the bench of our client does.
import { createRequire } from "node:module";

const [folder, address, given] = process.argv.slice(2);
const mqtt = createRequire(`${folder}/`)("mqtt");
const client = await mqtt.connectAsync(`mqtt://${address}`);
const payload = Buffer.alloc(32, "x");

async function publish(count) {
  let left = count;
  const lane = async () => {
    while (left-- > 0) await client.publishAsync("bench/t0", payload, { qos: 1 });
  };
  await Promise.all(Array.from({ length: 32 }, lane));
}

const count = Number(given);
await publish(2_000); // the compiler of V8 warms up
const before = process.cpuUsage();
const begun = performance.now();
await publish(count);
const seconds = (performance.now() - begun) / 1_000;
const { user, system } = process.cpuUsage(before);
const cpuUs = Number(((user + system) / count).toFixed(2));
console.log(JSON.stringify({ what: "publish", perSecond: Math.round(count / seconds), cpuUs }));
await client.endAsync();
