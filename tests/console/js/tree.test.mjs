import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ancestors, growth, move, rowsOf } from '../app/treemodel.js';
import { windowOf } from '../app/parts/table.js';

const node = (name, children = 0) => ({ name, label: name.split('/').at(-1), is_topic: !children, children, children_capped: false });
const levels = new Map([
  ['', { items: [node('plant', 3), node('site')], next: null, isLoading: false }],
  ['plant/', { items: [node('plant/p7'), node('plant/p8')], next: 'more', isLoading: false }],
]);

test('only open branches have rows below them', () => {
  assert.deepEqual(rowsOf(levels, new Set()).map((row) => row.node?.name), ['plant', 'site']);
  const open = rowsOf(levels, new Set(['plant']));
  assert.deepEqual(open.map((row) => row.node?.name ?? row.kind), ['plant', 'plant/p7', 'plant/p8', 'more', 'site']);
  assert.deepEqual(open.map((row) => row.depth), [0, 1, 1, 1, 0]);
});

test('a level that is not loaded whole has no size', () => {
  const [first, child] = rowsOf(levels, new Set(['plant']));
  assert.deepEqual([first.size, first.place], [2, 1]);
  assert.deepEqual([child.size, child.place], [-1, 1]);
});

test('a tree may begin below a prefix', () => assert.deepEqual(rowsOf(levels, new Set(), 'plant/').map((row) => row.depth), [0, 0, 0]));

test('ancestors of a topic are its prefixes, empty levels included', () => {
  assert.deepEqual(ancestors('a/b/c'), ['a', 'a/b']);
  assert.deepEqual(ancestors('/x'), ['']);
  assert.deepEqual(ancestors('x'), []);
});

test('arrow keys go through the tree as in any tree', () => {
  const rows = rowsOf(levels, new Set(['plant']));
  assert.deepEqual(move(rows, 0, 'ArrowDown'), { to: 1 });
  assert.deepEqual(move(rows, 0, 'ArrowRight'), { to: 1 });
  assert.deepEqual(move(rows, 0, 'ArrowLeft'), { close: 'plant' });
  assert.deepEqual(move(rows, 2, 'ArrowLeft'), { to: 0 });
  assert.deepEqual(move(rowsOf(levels, new Set()), 0, 'ArrowRight'), { open: 'plant' });
  assert.deepEqual(move(rows, 4, 'End'), { to: 4 });
  assert.deepEqual(move(rows, 4, 'q'), {});
});

test('a rate is offsets by time', () => {
  const first = growth(undefined, 100, 0);
  assert.equal(first.rate, 0);
  assert.equal(growth(first, 141, 1000).rate, 41);
});

test('a window is what is in view, and a little around it', () => {
  assert.deepEqual(windowOf(0, 280, 100_000, 28), { first: 0, last: 18 });
  assert.deepEqual(windowOf(28_000, 280, 100_000, 28), { first: 992, last: 1018 });
  assert.deepEqual(windowOf(0, 280, 3, 28), { first: 0, last: 3 });
});
