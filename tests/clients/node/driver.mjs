// The driver of the client for Node; `tests/clients/driver_process.py` has the contract.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

import { connect, Retry } from "../../../clients/node/index.mjs";

const ABILITIES = ["queue", "produce", "consume", "nack", "delay", "nodes", "login", "tls"];

const WORDS = { unauthenticated: "login" };

let client;
const subscriptions = [];
const open = new Map(); // handlers that wait for their result, by lease

function tell(line) {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

const doing = {
  hello: () => ({ client: "node", abilities: ABILITIES, limits: {} }),

  async connect({ host, port, nodes, user, password, ca, timeout_ms: timeoutMs }) {
    const known = (nodes ?? [[host, port]]).map(([name, number]) => `${name}:${number}`);
    client = await connect(known, {
      timeoutMs: timeoutMs ?? 60_000,
      ...(ca ? { tls: { ca: readFileSync(ca) } } : {}),
      ...(user ? { credentials: { user, password } } : {}),
    });
  },

  async produce({ topic, payload_b64: payload, priority, delay_ms: delayMs, ttl_ms: ttlMs }) {
    const body = Buffer.from(payload, "base64");
    return { offset: await client.produce({ topic, body, priority, delayMs, ttlMs }) };
  },

  consume({ topic, group, prefetch, visibility_ms: visibilityMs }) {
    subscriptions.push(
      client.subscribe(
        { topic, group, concurrency: prefetch ?? 16, visibilityMs },
        (job) =>
          new Promise((resolve, reject) => {
            const { leaseId: lease, offset, payload, redeliveries } = job;
            open.set(lease, { resolve, reject });
            tell({ event: "job", topic, group, lease, offset, redeliveries, payload_b64: payload.toString("base64") });
          }),
        (error) => tell({ event: "lost", text: error.message }),
      ),
    );
  },

  ack: ({ lease }) => settle(lease).resolve(),
  nack: ({ lease, reason, delay_ms: delayMs }) => settle(lease).reject(new Retry(reason ?? "given back", { delayMs })),

  async stats() {
    return { stats: await client.stats() };
  },

  async close() {
    await client?.close();
  },
};

function settle(lease) {
  const found = open.get(lease);
  if (found === undefined) throw new Error(`no job has the lease ${lease}`);
  open.delete(lease);
  return found;
}

async function answer({ id, do: what, ...fields }) {
  try {
    tell({ id, ok: true, ...(await doing[what](fields)) });
  } catch (error) {
    tell({ id, ok: false, error: error.message, kind: WORDS[error.code] ?? error.code ?? "failed" });
  }
}

for await (const line of createInterface(process.stdin)) void answer(JSON.parse(line));
await client?.close();
process.exit();
