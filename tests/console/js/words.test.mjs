import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pieces, sentence } from '../app/format.js';
import { clockTicks } from '../app/parts/chart.js';
import { changedBy } from '../app/pages/security.js';
import { besides } from '../app/pages/why.js';

test('an advice is a sentence, and names in it are code', () => {
  assert.equal(sentence('start workers'), 'Start workers.');
  assert.equal(sentence('Done. '), 'Done.');
  assert.equal(sentence(null), '');
  assert.deepEqual(pieces('Raise `limits.x`, or wait.'), [{ text: 'Raise ', isCode: false }, { text: 'limits.x', isCode: true }, { text: ', or wait.', isCode: false }]);
});

test('a record of the audit log says what was changed', () => {
  const record = (changes, note = '') => changedBy({ changes, note });
  assert.equal(record([{ kind: 'user', name: 'anna', after: {} }]), 'user anna added');
  assert.equal(record([{ kind: 'role', name: 'ops', before: {}, after: {} }]), 'role ops changed');
  assert.equal(record([{ kind: 'ban', name: 'client:x', before: {} }]), 'ban client:x deleted');
  assert.equal(record([{ kind: 'topic', name: 'mail/out', is_deleted: true }]), 'topic mail/out deleted');
  assert.equal(record([{ kind: 'group', name: 'send', topic: 'mail/out', after: {} }], 'seek'), 'group send of mail/out changed, seek');
  assert.equal(record([], 'by hand'), 'by hand');
});

test('what stands in the table of receivers is not said twice', () => {
  const facts = [{ at: 'now', text: 'Taken.' }, { at: null, text: 'send: in flight' }, { at: null, text: 'Captured.' }];
  assert.deepEqual(besides({ facts, receivers: [{ name: 'send', text: 'in flight' }] }), [facts[0], facts[2]]);
});

test('an axis of time has the clock, and the date where it changes', () => {
  const at = (day, hour) => new Date(2026, 10, day, hour).getTime() / 1000;
  assert.deepEqual(clockTicks([at(18, 22), at(18, 23), at(19, 0)], 3600), ['22:00\n2026-11-18', '23:00', '00:00\n2026-11-19']);
  assert.deepEqual(clockTicks([at(18, 22)], 15), ['22:00:00\n2026-11-18']);
});
