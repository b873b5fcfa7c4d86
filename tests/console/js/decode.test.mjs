import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bytesOf, fromHex, hexDump, jsonPieces, numericFields, prettyJson, textOf, toBase64 } from '../app/decode.js';

test('bytes survive base64', () => {
  const data = Uint8Array.from({ length: 70_000 }, (_, at) => at % 256);
  assert.deepEqual(bytesOf({ base64: toBase64(data) }), data);
});

test('hexadecimal is read with blanks, and refused when a digit is missing', () => {
  assert.deepEqual([...(fromHex('de ad 0xBE') ?? [])], [0xde, 0xad, 0xbe]);
  assert.equal(fromHex('abc'), null);
  assert.equal(fromHex('zz'), null);
});

test('a dump has sixteen bytes a row and says what is missing', () => {
  const lines = hexDump(new Uint8Array(40).fill(0x41), 32).split('\n');
  assert.equal(lines.length, 3);
  assert.match(lines[0], /^000000 {2}41 .*AAAAAAAAAAAAAAAA$/);
  assert.equal(lines[2], '… 8 bytes more');
});

test('indenting loses no digit of a number', () => {
  assert.equal(prettyJson('{"a":12345678901234567890,"b":[1,{}],"c":"x,{y"}'), '{\n  "a": 12345678901234567890,\n  "b": [\n    1,\n    {}\n  ],\n  "c": "x,{y"\n}');
});

test('what is no JSON stays as it is', () => assert.equal(prettyJson('{"a":'), '{"a":'));

test('pieces are the whole text again', () => {
  const text = prettyJson('{"a":[1,true,null,"b\\"c"]}');
  const pieces = jsonPieces(text);
  assert.equal(pieces.map((piece) => piece.text).join(''), text);
  assert.deepEqual(pieces.filter((piece) => piece.kind).map((piece) => piece.kind), ['key', 'number', 'word', 'word', 'string']);
});

test('a long text is cut into few pieces, and nothing is lost', () => {
  const text = JSON.stringify(Array.from({ length: 5000 }, (_, at) => at));
  const pieces = jsonPieces(text, 100);
  assert.ok(pieces.length <= 102);
  assert.equal(pieces.map((piece) => piece.text).join(''), text);
});

test('fields with numbers are found by path', () => {
  assert.deepEqual(numericFields('{"c":1,"d":{"e":2,"s":"x"},"__proto__":{"f":3}}'), ['c', 'd.e', '__proto__.f']);
  assert.deepEqual(numericFields('42'), ['']);
  assert.deepEqual(numericFields('no'), []);
});

test('128 levels do no harm', () => {
  const deep = '['.repeat(128) + ']'.repeat(128);
  assert.ok(prettyJson(deep).startsWith('['));
  assert.deepEqual(numericFields(deep), []);
});

test('text that is not UTF-8 is shown with marks', () => assert.equal(textOf({ base64: toBase64(Uint8Array.of(0x61, 0xff)) }), 'a\ufffd'));
