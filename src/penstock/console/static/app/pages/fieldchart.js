/** A chart of numbers in the payloads of topics: least and greatest of each bucket, so no peak is lost. */
import { html, useEffect, useMemo, useState } from '../ui.js';
import { count, parseMoment, visible } from '../format.js';
import { useResource } from '../live.js';
import { refine } from '../router.js';
import { Chart } from '../parts/chart.js';
import { Choice, Filter, Segments } from '../parts/fields.js';
import { Empty, Loading, Note, ProblemNote } from '../parts/states.js';

const SPANS = /** @type {[string, string][]} */ ([['-15m', '15 min'], ['-1h', '1 h'], ['-24h', '24 h'], ['all', 'Last 1,000']]);

/** Lines of the same times, out of a series of the API. Pure. @param {any} series */
export function linesOf(series) {
  const times = [...new Set(series.items.flatMap((line) => line.points.map((point) => Date.parse(point.at) / 1000)))].sort((a, b) => a - b);
  const place = new Map(times.map((at, index) => [at, index]));
  const lines = series.items.map((line) => {
    const values = /** @type {(number | null)[]} */ (Array(times.length).fill(null));
    for (const point of line.points) values[/** @type {number} */ (place.get(Date.parse(point.at) / 1000))] = point.last;
    return { name: [line.topic, line.field].filter(Boolean).join(' · '), values };
  });
  return { times, lines };
}

/** @param {{topic: string, query: Record<string, string>}} props */
export function FieldChart({ topic, query }) {
  const [more, setMore] = useState(query.with ?? '');
  const fields = (query.field ?? '').split(',').filter(Boolean);
  const span = query.span ?? '-1h';
  const since = useMemo(() => parseMoment(span) ?? '', [span, topic]);
  const topics = [topic, ...(query.with ?? '').split(',').map((one) => one.trim()).filter(Boolean)].slice(0, 5);
  const [known, setKnown] = useState(/** @type {string[]} */ ([]));
  const asked = fields.length ? fields : known.slice(0, 1);
  const { data, problem, isLoading, reload } = useResource('messages/series', { topic: topics, field: asked, since }, { every: 5_000 });
  useEffect(() => { if (data && data.fields.join() !== known.join()) setKnown(data.fields); }, [data]);
  const drawn = useMemo(() => data && linesOf(data), [data]);
  const offered = [...new Set([...(data?.fields ?? known), ...fields])];
  return html`<div class="filters">
      <${Choice} bare label="Field" value=${fields[0] ?? ''} onChange=${(field) => refine({ field })} options=${[['', offered.length ? 'first field' : 'the payload'], ...offered.map((one) => [one, one])]} />
      ${offered.length > 1 && fields.length > 0 && html`<${Choice} bare label="Another field" value="" onChange=${(field) => refine({ field: [...fields, field].slice(-4).join(',') })} options=${[['', 'add a field'], ...offered.filter((one) => !fields.includes(one)).map((one) => [one, one])]} />`}
      <${Filter} label="With topics (a, b)" value=${more} onChange=${(text) => { setMore(text); refine({ with: text }); }} />
      <${Segments} label="Time" value=${span} onChange=${(value) => refine({ span: value })} options=${SPANS} /></div>
    <${ProblemNote} problem=${problem} onRetry=${reload} />
    ${isLoading && !data && html`<${Loading} />`}
    ${drawn && drawn.times.length > 0 && html`<${Chart} label=${`Values of ${visible(topic)}`} times=${drawn.times} lines=${drawn.lines} height=${280} />`}
    ${drawn && !drawn.times.length && html`<${Empty} title="No numbers in this time">A chart shows payloads that are numbers, and numeric fields of JSON.<//>`}
    ${data?.items.some((line) => line.stopped) && html`<${Note}>Only the newest ${count(Math.max(...data.items.map((line) => line.scanned)))} messages were looked at.<//>`}`;
}
