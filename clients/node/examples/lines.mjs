// Stores each line of a file as a message, and reads them back: node examples/lines.mjs FILE [host:port]
// The file may be of any size: it is read only as fast as the broker stores.
import { open } from "node:fs/promises";
import { connect } from "penstock-client";

const [path, address = "127.0.0.1:1883"] = process.argv.slice(2);
const client = await connect([address]);
const file = await open(path);

async function* lines() {
  for await (const line of file.readLines()) yield { topic: "lines", body: line };
}

let stored = 0;
await client.produceMany(lines(), { onResult: ({ error }) => (error ? console.error(error.message) : stored++) });
console.log(`stored ${stored} lines`);

let bytes = 0;
for await (const slice of client.fetch({ topic: "lines" })) bytes += slice.payloads.length;
console.log(`the topic has ${bytes} bytes`);
await client.close();
