// Publishes and receives as an application would, in Node and in a browser; returns what it saw.
// Payloads are of several sizes, so that frames have each of the three forms of length.
async function exchange(mqtt, url, topic, options) {
  const client = mqtt.connect(url, {
    protocolVersion: 4,
    reconnectPeriod: 0,
    connectTimeout: 20000,
    clientId: topic,
    ...options,
  });
  await new Promise((resolve, reject) => {
    client.once("connect", resolve);
    client.once("error", reject);
    client.once("close", () => reject(new Error("closed")));
  });
  const seen = [];
  let arrived;
  const all = new Promise((resolve) => (arrived = resolve));
  client.on("message", (name, payload, packet) => {
    seen.push([name, payload.length, packet.qos]);
    if (seen.length === 4) arrived();
  });
  const granted = await client.subscribeAsync(`${topic}/#`, { qos: 2 });
  await client.publishAsync(`${topic}/0`, "x");
  await client.publishAsync(`${topic}/1`, "x".repeat(1000), { qos: 1 });
  await client.publishAsync(`${topic}/2`, "x".repeat(100000), { qos: 2 });
  await client.publishAsync(`${topic}/3`, "é".repeat(10), { qos: 1, retain: true });
  await all;
  await client.endAsync();
  return { granted: granted.map((one) => one.qos), seen: seen.sort() };
}

if (typeof module !== "undefined") {
  module.exports = { exchange };
}
