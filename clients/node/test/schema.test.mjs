// The tables of src/schema.ts say what queue.proto says.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import schema from "../dist/schema.js";

const PROTO = new URL("../../../src/penstock/wire/queue/queue.proto", import.meta.url);
const LEFT_OUT = /^(Stage|CommitStage|AbortStage|ListSinks|ForgetSink|FetchMany|FetchedMany|Sink|Start$)/;
const RAW_COLUMNS = 14; // fields of Slice from here on are not asked for
const PRIVATE = new Set(["Key.device", "Key.topics"]); // not sent to clients
const KIND_OF = { count: "uint64", enum: "Start" };

function messagesOf(proto) {
  const text = proto.replaceAll(/\/\/.*$/gm, "");
  const found = new Map();
  for (const [, name, body] of text.matchAll(/^message (\w+) \{([^{}]*)\}/gms)) {
    const fields = new Map();
    for (const [, label = "", type, field, number] of (body ?? "").matchAll(
      /^\s*(repeated |optional )?(\w+) (\w+) = (\d+);/gm,
    )) {
      const suffix = { "repeated ": "*", "optional ": "?", "": "" }[label];
      fields.set(camel(field), [Number(number), type + suffix]);
    }
    found.set(name, fields);
  }
  return found;
}

function camel(name) {
  return name.replaceAll(/_(\w)/g, (_, letter) => letter.toUpperCase());
}

const PROTO_MESSAGES = messagesOf(readFileSync(PROTO, "utf8"));

test("every field of the tables has the number and the type of queue.proto", () => {
  for (const [name, fields] of Object.entries(schema.MESSAGES)) {
    const known = PROTO_MESSAGES.get(name) ?? new Map();
    for (const [field, [number, type]] of Object.entries(fields)) {
      const base = type.replace(/[*?]$/, "");
      const expected = type.replace(base, KIND_OF[base] ?? base);
      assert.deepEqual([number, expected], known.get(field), `${name}.${field}`);
    }
  }
});

test("no field of queue.proto is missing", () => {
  for (const [name, fields] of Object.entries(schema.MESSAGES)) {
    for (const [field, [number]] of PROTO_MESSAGES.get(name) ?? []) {
      if (PRIVATE.has(`${name}.${field}`) || (name === "Slice" && number >= RAW_COLUMNS)) continue;
      assert.ok(field in fields, `${name}.${field}`);
    }
  }
});

test("requests and responses are those of queue.proto, and none is missing", () => {
  for (const [envelope, table] of [
    ["Request", schema.REQUESTS],
    ["Response", schema.RESPONSES],
  ]) {
    const text = readFileSync(PROTO, "utf8");
    const body = new RegExp(`^message ${envelope} \\{(.*?)^\\}`, "ms").exec(text)[1];
    const kinds = [...body.matchAll(/^ {4}(\w+) \w+ = (\d+);/gm)]
      .filter(([, name]) => !LEFT_OUT.test(name))
      .map(([, name, number]) => [name, Number(number)]);
    assert.ok(kinds.length > 10);
    assert.deepEqual(Object.fromEntries(kinds), table);
  }
});
