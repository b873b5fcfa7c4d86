// Connects as an application would, publishes, listens; prints what it saw as one line of JSON.
const { createClient } = require("redis");

const [port, topic, protocol] = process.argv.slice(2);

async function main() {
  const options = { socket: { host: "127.0.0.1", port: Number(port) }, RESP: Number(protocol) };
  const client = createClient({ ...options, name: "node" });
  const subscriber = createClient(options);
  await client.connect();
  await subscriber.connect();
  const messages = [];
  let arrived;
  const all = new Promise((resolve) => (arrived = resolve));
  const note = (kind) => (message, channel) => {
    messages.push([kind, channel, message]);
    if (messages.length === 4) arrived();
  };
  await subscriber.subscribe(topic, note("channel"));
  await subscriber.pSubscribe(`${topic.slice(0, -1)}*`, note("pattern"));
  const receivers = [await client.publish(topic, "one"), await client.publish(topic, "two")];
  await all;
  const name = await client.clientGetName();
  const echoed = await client.echo("hello");
  await subscriber.unsubscribe(topic);
  await subscriber.pUnsubscribe();
  const left = await client.publish(topic, "three");
  await Promise.all([client.close(), subscriber.close()]);
  console.log(JSON.stringify({ messages, receivers, name, echoed, left }));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
