// A worker, and somebody who has work: node examples/worker.mjs [host:port]
// Kill it in the middle and start it again: no job is lost.
import { connect } from "penstock-client";

const client = await connect([process.argv[2] ?? "127.0.0.1:1883"]);
await client.configureGroup({ topic: "images", group: "resize", maxDeliveries: 3, backoffMs: 500 });
await client.produceMany(["cat.png", "dog.png", "broken.png"].map((body) => ({ topic: "images", body })));

const work = client.subscribe(
  { topic: "images", group: "resize", concurrency: 4 },
  async (job) => {
    const name = job.payload.toString();
    if (name.startsWith("broken")) throw new Error("not an image");
    console.log(`${name}: done`);
  },
  (error, job) => console.log(`${job?.payload ?? "connection"}: ${error.message}`),
);

process.once("SIGINT", async () => {
  await work.unsubscribe(); // what runs is finished
  for await (const letter of client.deadLetters({ topic: "images", group: "resize" })) {
    console.log(`given up: ${letter.payload}`);
  }
  await client.close();
});
