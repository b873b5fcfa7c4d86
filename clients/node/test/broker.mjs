// Starts real brokers for tests: `penstock serve` as child processes, on ports that the system chose.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const ROOT = new URL("../../../", import.meta.url).pathname;
const LAST_GREETING = "  look ";

function command() {
  const own = join(ROOT, ".venv/bin/penstock");
  return process.env.PENSTOCK ?? (existsSync(own) ? own : "penstock");
}

export class Broker {
  /** `options`: further arguments of `penstock serve`; `port` to have the same one again. */
  constructor(options = [], { data, port = 0 } = {}) {
    this.isOwner = data === undefined;
    this.data = data ?? join(mkdtempSync(join(tmpdir(), "penstock-node-")), "data");
    this.options = options;
    this.port = port;
  }

  async start() {
    const listen = ["--listen", `127.0.0.1:${this.port}`];
    const args = ["serve", "--data", this.data, ...listen, ...this.options];
    this.child = spawn(command(), args, { stdio: ["ignore", "pipe", "pipe"] });
    this.log = "";
    this.child.stderr.on("data", (chunk) => (this.log += chunk));
    this.exited = once(this.child, "exit");
    for await (const line of createInterface(this.child.stdout)) {
      const listening = /listening\s+(?:\w+:\/\/)?127\.0\.0\.1:(\d+)/.exec(line);
      if (listening) this.port = Number(listening[1]);
      if (line.startsWith(LAST_GREETING)) {
        this.child.stdout.resume();
        return this;
      }
    }
    throw new Error(`the broker did not start: ${this.log}`);
  }

  get address() {
    return `127.0.0.1:${this.port}`;
  }

  async kill() {
    this.child.kill("SIGKILL");
    await this.exited;
  }

  async stop() {
    if (this.child.exitCode === null && this.child.signalCode === null) {
      this.child.kill("SIGTERM");
      await this.exited;
    }
    if (this.isOwner) rmSync(join(this.data, ".."), { recursive: true, force: true });
  }

  /** Run `penstock …` with this broker as the server; return what it prints. */
  async tell(...args) {
    return tell(...args, "--server", this.address);
  }
}

export async function startBroker(...options) {
  return new Broker(options).start();
}

export async function tell(...args) {
  const child = spawn(command(), args, { stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  let complaint = "";
  child.stdout.on("data", (chunk) => (said += chunk));
  child.stderr.on("data", (chunk) => (complaint += chunk));
  const [status] = await once(child, "close");
  if (status !== 0) throw new Error(`penstock ${args.join(" ")}: ${complaint || said}`);
  return said;
}

/** A port that was free a moment ago. */
export async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}

/** Resolves when `isSo` returns something true; for what sends no event. */
export async function until(isSo) {
  for (;;) {
    const found = await isSo();
    if (found) return found;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
