// The package as users get it: packed, installed elsewhere, required, imported, compiled against.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const run = promisify(execFile);
const HERE = fileURLToPath(new URL("..", import.meta.url));
const TOOLS = join(HERE, "node_modules");

let folder;
let archive;

before(async () => {
  folder = mkdtempSync(join(tmpdir(), "penstock-node-"));
  const packed = await run("npm", ["pack", "--json", "--ignore-scripts", "--pack-destination", folder], { cwd: HERE });
  archive = join(folder, JSON.parse(packed.stdout)[0].filename);
  const installed = join(folder, "node_modules/penstock-client");
  mkdirSync(installed, { recursive: true });
  await run("tar", ["-xzf", archive, "-C", installed, "--strip-components=1"]);
  mkdirSync(join(folder, "node_modules/@types"));
  for (const name of ["@types/node", "undici-types"]) symlinkSync(join(TOOLS, name), join(folder, "node_modules", name));
});

after(() => rmSync(folder, { recursive: true, force: true }));

test("it is at most 150 KB, depends on nothing and has the version of the project", () => {
  const manifest = JSON.parse(readFileSync(join(HERE, "package.json"), "utf8"));
  assert.equal(manifest.dependencies, undefined);
  assert.ok(statSync(archive).size <= 150_000, `${statSync(archive).size} bytes`);
  const project = readFileSync(join(HERE, "../../pyproject.toml"), "utf8");
  assert.equal(manifest.version, /^version = "(.*)"/m.exec(project)[1]);
});

test("require and import give the same classes", async () => {
  writeFileSync(join(folder, "required.cjs"), 'module.exports = require("penstock-client");');
  const code = `
    import * as imported from "penstock-client";
    import required from "./required.cjs";
    for (const name of Object.keys(required)) {
      if (imported[name] !== required[name]) throw new Error(name);
    }
    console.log(Object.keys(imported).join(" "));`;
  writeFileSync(join(folder, "both.mjs"), code);
  const { stdout } = await run(process.execPath, ["both.mjs"], { cwd: folder });
  const names = "Client DeadLetter PenstockError Retry Slice connect openEnvelope signEnvelope verifySignature";
  assert.equal(stdout.trim(), names);
});

test("the programs of HermesMQ's manual compile against its types, as modules of both kinds", async () => {
  const source = readFileSync(join(HERE, "test/manual.ts"), "utf8");
  for (const suffix of ["mts", "cts"]) writeFileSync(join(folder, `manual.${suffix}`), source);
  const flags = ["--noEmit", "--strict", "--module", "node16", "--target", "es2023", "--types", "node"];
  const compiler = join(TOOLS, "typescript/bin/tsc");
  await run(process.execPath, [compiler, ...flags, "manual.mts", "manual.cts"], { cwd: folder });
});

test("publint and attw find nothing", async () => {
  const { stdout } = await run(process.execPath, [join(TOOLS, "publint/src/cli.js"), "--strict", folder + "/node_modules/penstock-client"]);
  assert.match(stdout, /All good/);
  const attw = join(TOOLS, "@arethetypeswrong/cli/dist/index.js");
  await run(process.execPath, [attw, "--profile", "node16", archive]);
});

test("the programs in examples/ compile, and use only what the package has", async () => {
  for (const name of ["worker.mjs", "lines.mjs"]) {
    await run(process.execPath, ["--check", join(dirname(HERE + "x"), "examples", name)]);
  }
});
