import assert from 'node:assert/strict';
import { test } from 'node:test';
import { changesOf, fieldChanges, lineChanges } from '../app/diff.js';

test('fields are named by their path', () => {
  assert.deepEqual(fieldChanges({ c: 70.9, d: { e: [1, 2] } }, { c: 71.3, d: { e: [1, 3] }, f: null }), [
    { path: 'c', was: '70.9', is: '71.3' }, { path: 'd.e[1]', was: '2', is: '3' }, { path: 'f', was: null, is: 'null' },
  ]);
});

test('an object that becomes a list is one change', () => assert.equal(fieldChanges({ a: {} }, { a: [] }).length, 1));

test('fields with the names of built-in properties are compared', () => {
  const changes = changesOf('{"__proto__":1,"constructor":1}', '{"__proto__":2}');
  assert.deepEqual(changes.changes, [{ path: '__proto__', was: '1', is: '2' }, { path: 'constructor', was: '1', is: null }]);
});

test('equal payloads have no changes', () => assert.deepEqual(changesOf('{"a":1}', '{ "a" : 1 }').changes, []));

test('text is compared by line', () => {
  assert.deepEqual(changesOf('a\nb\nc', 'a\nx\nc'), { kind: 'lines', changes: [{ path: 'line 2', was: null, is: 'x' }, { path: 'line 2', was: 'b', is: null }] });
  assert.deepEqual(lineChanges('a\nb', 'a\nb'), []);
});

test('the number of changes is bounded', () => {
  const many = Object.fromEntries(Array.from({ length: 2000 }, (_, at) => [`f${at}`, at]));
  assert.equal(fieldChanges(many, {}).length, 500);
});
