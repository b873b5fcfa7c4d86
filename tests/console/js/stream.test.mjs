import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EventParser, backOff } from '../app/sse.js';
import { upTo } from '../app/live.js';
import { address, placeOf } from '../app/router.js';
import { certain } from '../app/parts/search.js';
import { grown } from '../app/pages/overview.js';
import { linesOf } from '../app/pages/fieldchart.js';
import { questionOf } from '../app/pages/why.js';
import { pairOf } from '../app/pages/messages.js';
import { tomlOf } from '../app/pages/settings.js';
import { sparkPath, thin } from '../app/parts/spark.js';

test('events are the same however the stream is cut', () => {
  const text = ': hello\n\nevent: rates\nid: 7\ndata: {"a":1}\n\nevent: topics\r\ndata: x\r\ndata: y\r\n\r\ndata: z\n\n';
  const whole = new EventParser().push(text);
  assert.deepEqual(whole, [{ event: 'rates', data: '{"a":1}', id: '7' }, { event: 'topics', data: 'x\ny', id: '7' }, { event: 'message', data: 'z', id: '7' }]);
  for (let size = 1; size < 9; size += 1) {
    const parser = new EventParser();
    const found = [];
    for (let at = 0; at < text.length; at += size) found.push(...parser.push(text.slice(at, at + size)));
    assert.deepEqual(found, whole, `pieces of ${size}`);
  }
});

test('attempts to connect again become rare, within bounds', () => {
  assert.ok(backOff(0, 0) >= 375 && backOff(1, 1) <= 1250);
  assert.ok(backOff(50, 1) <= 18_750);
});

test('as many names are asked for as an address can hold', () => assert.deepEqual(upTo(['aaaa', 'bbbb', 'cccc'], 25), ['aaaa', 'bbbb']));

test('the address holds the page and what it shows', () => {
  const url = address('topics', { topic: 'plant/p7 ü', at: '', live: false, offset: 0 });
  assert.equal(url, '/console/topics?topic=plant%2Fp7+%C3%BC&offset=0');
  const { pathname, search } = new URL(url, 'http://broker');
  assert.deepEqual(placeOf({ pathname, search }), { page: 'topics', query: { topic: 'plant/p7 ü', offset: '0' } });
  assert.equal(placeOf({ pathname: '/console/', search: '' }).page, 'overview');
});

test('topic@offset and keys are known by their form', () => {
  assert.equal(certain('mail/out@118')[0].kind, 'message');
  assert.equal(certain('key 7')[0].kind, 'key');
  assert.deepEqual(certain('pump-7'), []);
});

test('a question is about what its form says, or what was chosen', () => {
  assert.deepEqual(questionOf('mail/out@118', ''), { path: 'why/message', query: { topic: 'mail/out', offset: '118' } });
  assert.deepEqual(questionOf('pump-7', ''), { path: 'why/client', query: { client_id: 'pump-7' } });
  assert.deepEqual(questionOf('plant/p7', ''), { path: 'why/topic', query: { topic: 'plant/p7' } });
  assert.deepEqual(questionOf('pump-7', 'topic'), { path: 'why/topic', query: { topic: 'pump-7' } });
});

test('a history grows at its end and loses its beginning', () => {
  const history = { start: '2026-11-18T12:00:00.000Z', step_s: 1, count: 3, series: [{ name: 'in', values: [1, 2, 3] }] };
  const series = grown(history, [{ at: '', values: { in: 4 } }]);
  assert.deepEqual(series.lines.get('in').values, [2, 3, 4]);
  assert.equal(series.start, Date.parse('2026-11-18T12:00:01Z') / 1000);
});

test('lines of a chart share their times', () => {
  const point = (at, last) => ({ at: `2026-11-18T12:00:0${at}Z`, min: last, max: last, last, count: 1 });
  const { times, lines } = linesOf({ items: [{ topic: 'a', field: 'c', points: [point(1, 5), point(3, 6)] }, { topic: 'b', field: '', points: [point(2, 7)] }] });
  assert.equal(times.length, 3);
  assert.deepEqual(lines, [{ name: 'a · c', values: [5, null, 6] }, { name: 'b', values: [null, 7, null] }]);
});

test('two marked messages are compared in the order of their offsets', () => {
  const rows = [{ offset: 9 }, { offset: 8 }, { offset: 7 }];
  assert.deepEqual(pairOf([rows[0], rows[2]], null, rows), [{ offset: 7 }, { offset: 9 }]);
  assert.deepEqual(pairOf([], rows[1], rows), [{ offset: 7 }, { offset: 8 }]);
  assert.equal(pairOf([], rows[2], rows), null);
});

test('settings become a file, without secrets', () => {
  const item = (name, toml, secret = false) => ({ name, section: name.includes('.') ? name.split('.')[0] : '', toml, secret });
  assert.equal(tomlOf([item('listen', '["a"]'), item('limits.clients_max', '5'), item('admin.token', '"x"', true)]), 'listen = ["a"]\n\n[limits]\nclients_max = 5\n');
});

test('a peak stays when a curve is thinned', () => {
  const values = Array.from({ length: 900 }, () => 1);
  values[457] = 99;
  assert.equal(Math.max(...thin(values, 100)), 99);
  assert.ok(thin(values, 100).length === 100);
});

test('a gap breaks a curve', () => assert.equal(sparkPath([1, null, 1]).match(/M/g).length, 2));
