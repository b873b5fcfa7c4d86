// Connecting, logging in, TLS, and the end.
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";

import { connect } from "../index.mjs";
import { freePort, startBroker, tell } from "./broker.mjs";
import { once, promised, rejects, unique } from "./kit.mjs";

const run = promisify(execFile);
const PACKAGE = new URL("../index.mjs", import.meta.url).pathname;
const SECRET = "correct horse battery staple";

let broker;

before(async () => (broker = await startBroker()));
after(() => broker.stop());

test("a program that is idle ends by itself", async () => {
  const code = `
    const { connect } = await import(${JSON.stringify(PACKAGE)});
    const client = await connect([${JSON.stringify(broker.address)}]);
    await client.produce({ topic: "idle", body: "x" });
    console.log("done");`;
  const { stdout } = await run(process.execPath, ["--input-type=module", "-e", code]);
  assert.equal(stdout, "done\n");
});

test("an open call keeps the program alive until it is answered", async () => {
  const topic = unique();
  const code = `
    const { connect } = await import(${JSON.stringify(PACKAGE)});
    const client = await connect([${JSON.stringify(broker.address)}]);
    console.log("polling");
    const [job] = await client.poll({ topic: ${JSON.stringify(topic)}, group: "g", waitMs: 60000 });
    console.log(job.payload.toString());`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", code]);
  let said = "";
  child.stdout.on("data", (chunk) => (said += chunk));
  await once(child.stdout, "data");
  const client = await connect([broker.address]);
  await client.produce({ topic, body: "work" });
  await once(child, "close");
  assert.equal(said, "polling\nwork\n");
  await client.close();
});

test("close ends a client within two seconds, whatever its handlers do", async () => {
  const client = await connect([broker.address]);
  const topic = unique();
  await client.produce({ topic, body: "x" });
  const begun = promised();
  client.subscribe({ topic, group: "g" }, () => {
    begun.resolve();
    return new Promise(() => undefined);
  });
  await begun.promise;
  const polling = client.poll({ topic: unique(), group: "g", waitMs: 60_000 });
  const closing = performance.now();
  await Promise.all([rejects(polling, "closed"), client.close()]);
  assert.ok(performance.now() - closing < 2_500);
  await rejects(client.stats(), "closed");
});

test("close acknowledges what running handlers finish", async () => {
  const client = await connect([broker.address]);
  const topic = unique();
  await client.produceMany([{ topic, body: "a" }]);
  const begun = promised();
  const mayEnd = promised();
  client.subscribe({ topic, group: "g" }, async () => {
    begun.resolve();
    await mayEnd.promise;
  });
  await begun.promise;
  const closing = client.close();
  mayEnd.resolve();
  await closing;
  const other = await connect([broker.address]);
  assert.deepEqual(await other.poll({ topic, group: "g", waitMs: 300 }), []);
  await other.close();
});

test("close ends a client whose broker is gone", async () => {
  const own = await startBroker();
  const client = await connect([own.address]);
  client.subscribe({ topic: "t", group: "g" }, () => undefined, () => undefined);
  await own.kill();
  const pending = rejects(client.produce({ topic: "t", body: "x" }), "closed");
  const closing = performance.now();
  await client.close();
  await pending;
  assert.ok(performance.now() - closing < 2_000);
  await own.stop();
});

test("nobody at the address is unreachable, after the time given, with the address in the text", async () => {
  const port = await freePort();
  const begun = performance.now();
  await assert.rejects(connect([`127.0.0.1:${port}`], { timeoutMs: 400 }), (error) => {
    assert.match(error.message, new RegExp(`unreachable: 127.0.0.1:${port}`));
    return error.code === "unreachable";
  });
  assert.ok(performance.now() - begun >= 390);
});

test("connect goes on to a node that answers", async () => {
  const client = await connect([`127.0.0.1:${await freePort()}`, broker.address]);
  assert.equal((await client.stats()).isLeader, true);
  await client.close();
});

test("an aborted connect ends at once", async () => {
  const port = await freePort();
  const signal = AbortSignal.timeout(50);
  await assert.rejects(connect([`127.0.0.1:${port}`], { signal }), { name: "TimeoutError" });
});

test("another protocol's server is told apart from a broker", async () => {
  const server = createServer((socket) => {
    socket.on("error", () => undefined);
    socket.end("HTTP/1.1 400 Bad Request\r\n\r\n");
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  await rejects(connect([`127.0.0.1:${server.address().port}`], { timeoutMs: 500 }), "protocol");
  server.close();
});

test("a silent server is left within the time given", async () => {
  const sockets = [];
  const server = createServer((socket) => sockets.push(socket.on("error", () => undefined))).listen(0, "127.0.0.1");
  await once(server, "listening");
  const attempt = connect([`127.0.0.1:${server.address().port}`], { timeoutMs: 600 });
  await assert.rejects(attempt, (error) => ["timeout", "connection_lost"].includes(error.code));
  sockets.forEach((socket) => socket.destroy());
  server.close();
});

test("users log in, by password or by a function; a wrong one is told at once", async () => {
  const own = await startBroker();
  const folder = mkdtempSync(join(tmpdir(), "penstock-node-"));
  try {
    const password = await addUser(own, folder);
    const credentials = { user: "ann", password };
    for (const given of [credentials, () => credentials, async () => credentials]) {
      const client = await connect([own.address], { credentials: given });
      assert.equal(await client.produce({ topic: unique(), body: "x" }), "0");
      await client.close();
    }
    const begun = performance.now();
    const wrong = { user: "ann", password: `${password}x` };
    await rejects(connect([own.address], { credentials: wrong }), "unauthenticated");
    assert.ok(performance.now() - begun < 5_000);
  } finally {
    rmSync(folder, { recursive: true });
    await own.stop();
  }
});

async function addUser(own, folder) {
  const file = join(folder, "password");
  await run("sh", ["-c", `umask 077; printf '%s' '${SECRET}' > ${file}`]);
  await own.tell("users", "add", "ann", "--role", "client", "--password-file", file);
  return SECRET;
}

test("TLS: a broker whose certificate is signed by the given authority, and no other", async () => {
  const folder = mkdtempSync(join(tmpdir(), "penstock-node-"));
  try {
    await tell("certs", "dev", folder);
    const own = await startBroker("--tls-cert", join(folder, "server.crt"), "--tls-key", join(folder, "server.key"));
    const client = await connect([own.address], { tls: { ca: readFileSync(join(folder, "ca.crt")) } });
    const body = Buffer.alloc(900_000, 7);
    await client.produce({ topic: "t", body });
    const [message] = await client.poll({ topic: "t", group: "g" });
    assert.ok(message.payload.equals(body));
    await client.ack(message);
    await client.close();
    await rejects(connect([own.address], { tls: true }), "tls");
    await own.stop();
  } finally {
    rmSync(folder, { recursive: true });
  }
});
