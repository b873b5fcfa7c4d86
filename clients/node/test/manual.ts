// What the manual of HermesMQ shows of its client, as a user of that would have written it.
import { connect, PenstockError, type Message } from "penstock-client";

interface Order {
  id: number;
}

declare function handle(payload: Buffer): Promise<void>;
declare const orders: Order[];
declare const base: number;

export async function main(): Promise<void> {
  const client = await connect([
    { id: 1, clientAddr: "127.0.0.1:7600", peerAddr: "hermesmq1:7700" },
    { id: 2, clientAddr: "127.0.0.1:7601", peerAddr: "hermesmq2:7700" },
    { id: 3, clientAddr: "127.0.0.1:7602", peerAddr: "hermesmq3:7700" },
  ]);
  await client.createTopic({
    topic: "orders",
    rateLimit: { ratePerSec: 100, burst: 200 },
    retention: { maxMessages: 1_000_000, maxAgeMs: 86_400_000 },
  });
  const offset: string = await client.produce({
    topic: "orders",
    body: Buffer.from("hello"),
    priority: 0,
    producerId: "billing-7f3a",
    seq: 42,
  });
  const results = await client.produceMany(
    orders.map((order, i) => ({
      topic: "orders",
      body: Buffer.from(JSON.stringify(order)),
      producerId: "billing-7f3a",
      seq: base + i,
    })),
  );
  for (const { offset: stored, error } of results) console.log(stored ?? error?.code, offset);

  const messages = await client.poll({ topic: "orders", group: "workers", max: 10, visibilityMs: 30_000, waitMs: 20_000 });
  for (const m of messages) {
    const ids: [string, string, string] = [m.leaseId, m.offset, m.tsMs];
    const numbers: [number, number] = [m.priority, m.contentType];
    console.log(ids, numbers);
    try {
      await handle(m.payload);
      await client.ack({ topic: "orders", group: "workers", leaseId: m.leaseId });
    } catch {
      await client.nack({ topic: "orders", group: "workers", leaseId: m.leaseId });
    }
  }

  const subscription = await client.subscribe(
    { topic: "orders", group: "workers", prefetch: 16, visibilityMs: 30_000, ackMode: "manual" },
    async (m: Message) => {
      await handle(m.payload);
    },
  );
  subscription.unsubscribe();

  const { lastApplied, currentLeader } = await client.stats();
  const figures: [string, number] = [lastApplied, currentLeader];
  console.log(figures);
  await client.bootstrap();
  await client.close();
}

export async function more(signal: AbortSignal): Promise<void> {
  const client = await connect(["a:1883", "b:1883"], { tls: true, credentials: { token: "t" }, timeoutMs: 5_000 });
  try {
    for await (const job of client.consume({ topic: "orders", group: "workers", signal })) await handle(job.payload);
    for await (const record of client.messages({ topic: "orders", offset: 5n })) console.log(record.offset);
  } catch (error) {
    if (error instanceof PenstockError && error.code === "lease_lost") console.log(error.leases);
  }
}
