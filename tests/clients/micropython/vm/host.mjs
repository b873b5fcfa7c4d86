// Runs driver.py in MicroPython's own VM, compiled to WebAssembly. The VM has no sockets: this file
// gives it lines of the standard input, TCP and TLS by node:net and node:tls, and random bytes.
//
//     node host.mjs FOLDER-OF-THE-PACKAGE PROGRAM
//
// The folder has penstock/*.py, or *.mpy. PROGRAM is Python that runs in the VM; its `import host`
// is this file. Bytes cross by their address in the VM's memory, without a copy of a copy.

import { randomFillSync } from "node:crypto";
import { readFileSync, readdirSync } from "node:fs";
import { connect as connectTcp } from "node:net";
import { createInterface } from "node:readline";
import { connect as connectTls } from "node:tls";

// The VM's event loop runs its tasks by setTimeout, which waits a millisecond at least. It is to go on
// at once: a board has no such pause.
const { setTimeout: later } = globalThis;
globalThis.setTimeout = (run, ms) => (ms > 0 ? later(run, ms) : setImmediate(run));

let memory;
const { instantiate } = WebAssembly;
WebAssembly.instantiate = async (...given) => {
  const made = await instantiate(...given);
  memory = Object.values(made.instance.exports).find((one) => one instanceof WebAssembly.Memory);
  return made;
};

const bytesAt = (address, size) => new Uint8Array(memory.buffer, address, size);

// A queue of one reader: `take` gives what is there, or waits for it.
class Stream {
  constructor() {
    this.items = [];
    this.ended = false;
    this.waiting = null;
  }

  put(item) {
    this.items.push(item);
    this.wake();
  }

  end() {
    this.ended = true;
    this.wake();
  }

  wake() {
    this.waiting?.(true);
    this.waiting = null;
  }

  ready() {
    if (this.items.length > 0 || this.ended) return Promise.resolve(true);
    return new Promise((resolve) => (this.waiting = resolve));
  }
}

class Connection {
  constructor(socket) {
    this.socket = socket;
    this.input = new Stream();
    socket.setNoDelay(true);
    socket.on("data", (data) => {
      this.input.put(data);
      if (this.input.items.length > 16) socket.pause();
    });
    socket.on("close", () => this.input.end());
    socket.on("error", () => this.input.end());
  }

  has() {
    return this.input.items.length > 0 || this.input.ended;
  }

  ready() {
    return this.input.ready();
  }

  // Copies what has arrived to the VM, and returns how much that was; 0 is the end.
  read(address, size) {
    const data = this.input.items.shift();
    if (data === undefined) return 0;
    const part = data.subarray(0, size);
    bytesAt(address, part.length).set(part);
    if (part.length < data.length) this.input.items.unshift(data.subarray(part.length));
    if (this.input.items.length === 0) this.socket.resume();
    return part.length;
  }

  write(address, size) {
    return this.socket.write(bytesAt(address, size).slice());
  }

  drained() {
    if (!this.socket.writableNeedDrain || this.socket.destroyed) return Promise.resolve(true);
    return new Promise((resolve) => {
      this.socket.once("drain", () => resolve(true));
      this.socket.once("close", () => resolve(true));
    });
  }

  close() {
    this.socket.destroy();
  }
}

const lines = new Stream();
const input = createInterface({ input: process.stdin });
input.on("line", (line) => lines.put(line));
input.on("close", () => lines.end());

const host = {
  dial(name, port, ca) {
    return new Promise((resolve) => {
      const options = { host: name, port };
      const made = ca ? connectTls({ ...options, ca: readFileSync(ca) }) : connectTcp(options);
      made.once(ca ? "secureConnect" : "connect", () => resolve(new Connection(made)));
      made.once("error", () => resolve(null));
    });
  },
  collect() {
    globalThis.gc();
    return new Promise((resolve) => setTimeout(() => resolve(true), 20));
  },
  lineReady: () => lines.ready(),
  line: () => lines.items.shift() ?? "",
  random: (address, size) => void randomFillSync(bytesAt(address, size)),
};

const [folder, program] = process.argv.slice(2);
const url = new URL(
  "node_modules/@micropython/micropython-webassembly-pyscript/micropython.mjs",
  import.meta.url,
);
const { loadMicroPython } = await import(url);
const vm = await loadMicroPython({
  stdout: (line) => process.stdout.write(`${line}\n`),
  stderr: (line) => process.stderr.write(`${line}\n`),
  linebuffer: true,
});
vm.registerJsModule("host", host);
vm.FS.mkdir("/lib");
vm.FS.mkdir("/lib/penstock");
for (const name of readdirSync(`${folder}/penstock`)) {
  if (/[.]m?py$/.test(name)) {
    vm.FS.writeFile(`/lib/penstock/${name}`, readFileSync(`${folder}/penstock/${name}`));
  }
}
for (const name of ["driver.py", "crypto_program.py", "vm/bridge.py"]) {
  const file = new URL(`../${name}`, import.meta.url);
  vm.FS.writeFile(`/lib/${name.split("/").at(-1)}`, readFileSync(file));
}
try {
  await vm.runPythonAsync(readFileSync(program, "utf8"));
} catch (error) {
  process.stderr.write(`${error.message}\n`);
  process.exitCode = 1;
}
process.exit();
