import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ago, bytes, count, duration, parseMoment, percent, plural, rate, short, time, visible, visibleLines } from '../app/format.js';

const NOON = new Date(2026, 10, 18, 12, 0, 0).getTime();

test('control and direction characters are made visible', () => {
  assert.equal(visible('a\u202eb\u0000c\u001bd\u007f'), 'a\\u202eb␀c␛d␡');
  assert.equal(visible('</script>'), '</script>');
  assert.equal(visible(undefined), '');
});

test('lines and tabs of a payload stay', () => assert.equal(visibleLines('a\tb\r\nc\u0007'), 'a\tb\nc␇'));

test('numbers are grouped, and long ones short', () => {
  assert.equal(count(12480), '12,480');
  assert.equal(short(9999), '9,999');
  assert.equal(short(12480), '12.5 k');
  assert.equal(short(98_200_000), '98.2 M');
  assert.equal(count(null), '–');
});

test('rates, sizes and shares have units', () => {
  assert.equal(rate(0), '0/s');
  assert.equal(rate(0.25), '0.25/s');
  assert.equal(rate(12480.4), '12.5 k/s');
  assert.equal(bytes(31), '31 B');
  assert.equal(bytes(1229), '1.20 KiB');
  assert.equal(bytes(6.1 * 2 ** 30), '6.10 GiB');
  assert.equal(percent(0.413), '41 %');
  assert.equal(percent(0.002), '0.2 %');
});

test('a duration has one unit', () => {
  assert.equal(duration(0.0041), '4.10 ms');
  assert.equal(duration(45), '45 s');
  assert.equal(duration(840), '14 min');
  assert.equal(duration(7200), '2 h');
  assert.equal(duration(9 * 86400), '9 d');
});

test('a time of today has no date', () => {
  assert.equal(time(NOON - 1000, { now: NOON }), '11:59:59');
  assert.equal(time(NOON - 1000 + 118, { now: NOON, ms: true }), '11:59:59.118');
  assert.equal(time(NOON - 86_400_000, { now: NOON }), '2026-11-17 12:00:00');
  assert.equal(time('nonsense'), '–');
});

test('how long ago is never negative', () => {
  assert.equal(ago(NOON - 3000, NOON), '3 s');
  assert.equal(ago(NOON + 3000, NOON), '0 s');
});

test('moments are read as people type them', () => {
  assert.equal(parseMoment('11:30', NOON), new Date(2026, 10, 18, 11, 30).toISOString());
  assert.equal(parseMoment('14:03', NOON), new Date(2026, 10, 17, 14, 3).toISOString());
  assert.equal(parseMoment('-15m', NOON), new Date(NOON - 900_000).toISOString());
  assert.equal(parseMoment('2026-11-18T10:00:00Z', NOON), '2026-11-18T10:00:00.000Z');
  assert.equal(parseMoment('2026-11-18 10:00', NOON), new Date(2026, 10, 18, 10, 0).toISOString());
  assert.equal(parseMoment('soon', NOON), null);
});

test('one is one, and two are many', () => {
  assert.equal(plural(1, 'letter'), '1 letter');
  assert.equal(plural(2000, 'letter'), '2,000 letters');
});
