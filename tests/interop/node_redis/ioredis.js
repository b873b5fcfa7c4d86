// Connects as an application would, publishes, listens, works on a stream; prints one line of JSON.
const { Redis } = require("ioredis");

const [port, topic] = process.argv.slice(2);

async function main() {
  const client = new Redis({ host: "127.0.0.1", port: Number(port), connectionName: "io" });
  const subscriber = client.duplicate();
  const messages = [];
  const all = new Promise((resolve) => {
    const note = (...message) => messages.push(message) === 4 && resolve();
    subscriber.on("message", (channel, text) => note("channel", channel, text));
    subscriber.on("pmessage", (_pattern, channel, text) => note("pattern", channel, text));
  });
  await subscriber.subscribe(topic);
  await subscriber.psubscribe(`${topic.slice(0, -1)}*`);
  const receivers = await Promise.all(["one", "two"].map((text) => client.publish(topic, text)));
  await all;

  const stream = `jobs-${topic}`; // not of the pattern: entries are messages, too
  await client.xgroup("CREATE", stream, "g", "$", "MKSTREAM");
  const id = await client.xadd(stream, "*", "job", "cat.png");
  const taken = await client.xreadgroup("GROUP", "g", "worker", "COUNT", 10, "STREAMS", stream, ">");
  const fields = taken[0][1].map(([, pairs]) => pairs);
  const acknowledged = await client.xack(stream, "g", id);
  const name = await client.client("GETNAME");
  await Promise.all([client.quit(), subscriber.quit()]);
  console.log(JSON.stringify({ messages, receivers, fields, acknowledged, name }));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
