/** Overview: is it well, what does an acknowledgement mean now, what needs attention. */
import { html, useEffect, useMemo, useState, useStore } from '../ui.js';
import { bytes, count, digits, duration, milliseconds, percent, plural, rate, sentence, short, visible, words } from '../format.js';
import { capital, health, loadHealth } from '../health.js';
import { useResource, useStream } from '../live.js';
import { address, refine } from '../router.js';
import { Chart } from '../parts/chart.js';
import { Segments } from '../parts/fields.js';
import { Icon } from '../parts/icons.js';
import { Spark } from '../parts/spark.js';
import { Advice, Command, Loading, ProblemNote } from '../parts/states.js';

const ICONS = /** @type {Record<string, string>} */ ({ healthy: 'ok', degraded: 'warn', unavailable: 'bad' });

/** @param {{query: Record<string, string>}} props */
export function Overview({ query }) {
  const { overview, problem } = useStore(health);
  const range = query.range === '24h' ? '24h' : '15m';
  const series = useSeries(range);
  useEffect(() => { loadHealth(); }, []);
  if (!overview) return problem ? html`<${ProblemNote} problem=${problem} onRetry=${loadHealth} />` : html`<${Loading} />`;
  const { health: how, numbers } = overview;
  const tone = ICONS[how.state] ?? 'info';
  const isNew = numbers.topics === 0 && numbers.connections === 0;
  return html`<div class="verdict"><span style=${{ paddingTop: '3px' }}><${Icon} name=${tone} tone=${tone} size=${22} /></span><div class="grow"><h1>${capital(visible(how.text))}</h1><p class="muted">An acknowledgement means: ${visible(how.acknowledgement)}. Up ${duration(overview.uptime_s)}.</p></div>
      <${Segments} label="Time" value=${range} onChange=${(value) => refine({ range: value === '15m' ? '' : value })} options=${[['15m', '15 min'], ['24h', '24 h']]} /></div>
    <${ProblemNote} problem=${problem} onRetry=${loadHealth} />
    ${isNew && html`<div class="note"><span class="grow">Nothing is connected, and nothing was published yet. Try <${Command} text="penstock pub hello world" /></span></div>`}
    <${Figures} overview=${overview} series=${series} />
    <div class="grid">
      <${Findings} findings=${overview.findings} /><${Storage} storage=${overview.storage} numbers=${numbers} />
      <${Busiest} items=${overview.busiest} /><${ClusterPanel} cluster=${overview.cluster} />
      <${Reasons} title="Ended in the last 5 minutes" codes=${overview.ends} none="No connection ended." /><${Reasons} title="Dropped in the last 5 minutes" codes=${overview.drops} none="No message was dropped." />
      <${HistoryPanel} series=${series} range=${range} />
    </div>`;
}

/** What is drawn as curves: the history, and each second what the stream says. @param {string} range */
function useSeries(range) {
  const { data } = useResource('history', { range }, { every: range === '24h' ? 60_000 : 0 });
  const [added, setAdded] = useState(/** @type {any[]} */ ([]));
  useEffect(() => setAdded([]), [data]);
  useStream(range === '15m' ? 'rates' : '', (event, body) => {
    if (event === 'rates') setAdded((old) => [...old.slice(-899), body]);
  });
  return useMemo(() => grown(data, added), [data, added]);
}

/** A history with the seconds since, as long as before. Pure. @param {any} history @param {{at: string, values: Record<string, number | null>}[]} added */
export function grown(history, added) {
  if (!history) return null;
  const start = Date.parse(history.start) / 1000 + added.length * history.step_s;
  const lines = new Map(history.series.map((one) => [one.name, {
    ...one, values: [...one.values, ...added.map(({ values }) => values[one.name] ?? null)].slice(-history.count || undefined),
  }]));
  return { start, step: history.step_s, lines };
}

/** @param {{overview: any, series: any}} props */
function Figures({ overview, series }) {
  const { rates, numbers } = overview;
  const now = (name, value) => series?.lines.get(name)?.values.at(-1) ?? value;
  const dropped = rates.drops > 0;
  return html`<div class="figures">
    <${Figure} name="In" value=${rate(now('messages_in', rates.messages_in))} note=${`${bytes(rates.bytes_in)}/s`} series=${series} of="messages_in" />
    <${Figure} name="Out" value=${rate(now('messages_out', rates.messages_out))} note=${`${bytes(rates.bytes_out)}/s`} series=${series} of="messages_out" />
    <${Figure} name="Ack p99" value=${milliseconds(rates.acknowledge_p99_ms)} note=${`p50 ${milliseconds(rates.acknowledge_p50_ms)}`} series=${series} of="acknowledge_p99" />
    <${Figure} name="Disk flush p99" value=${milliseconds(rates.fsync_p99_ms)} note=${`${rate(rates.commits)} commits`} series=${series} of="fsync_p99" />
    <${Figure} name="Clients" value=${count(numbers.connections)} note=${numbers.away ? `${count(numbers.away)} away` : `${plural(numbers.subscriptions, 'subscription')}`} href=${address('clients')} series=${series} of="clients" />
    <${Figure} name="Queued for sessions" value=${count(numbers.queued)} note=${`${plural(numbers.topics, 'topic')}`} href=${address('clients', { backlog: 1 })} series=${series} of="queued" />
    <${Figure} name="Lag of groups" value=${count(numbers.lag)} note=${numbers.dead_letters ? html`<span class="warn">${plural(numbers.dead_letters, 'dead letter')}</span>` : `${plural(numbers.groups, 'group')}`} href=${address('groups')} />
    <${Figure} name="Drops" value=${rate(rates.drops)} note=${dropped ? html`<span class="bad">messages are lost</span>` : 'none now'} series=${series} of="drops" />
  </div>`;
}

/** @param {any} props */
function Figure({ name, value, note, href, series, of }) {
  const line = of ? drawable(series?.lines.get(of)) : null;
  const inside = html`<span class="name">${name}</span><span class="figure">${value}</span><span class="sub">${note}</span>${line && html`<${Spark} values=${line.values} label=${`${name}, over time: now ${value}`} />`}`;
  return href ? html`<a class="figure-box" href=${href}>${inside}</a>` : html`<div class="figure-box">${inside}</div>`;
}

/** A curve of two points says nothing. @param {any} line */
const drawable = (line) => (line?.values.filter((value) => value !== null).length > 2 ? line : null);

/** Where a finding leads. @param {any} finding */
export function whereOf({ page, topic, group, reason }) {
  if (page === 'clients' && reason) return address('why', {});
  return address(page || 'overview', { topic, group });
}

/** @param {{findings: any[]}} props */
function Findings({ findings }) {
  return html`<section class="panel"><header><h2>Needs attention</h2></header>
    ${findings.length ? html`<ul class="attention">${findings.map((finding) => html`<li><a href=${whereOf(finding)}><${Icon} name=${finding.severity} tone=${finding.severity} /><span class="grow"><span class="sr">${finding.severity === 'bad' ? 'Urgent: ' : 'Warning: '}</span>${visible(sentence(finding.text))} <span class="muted"><${Advice} text=${finding.advice} /></span></span><${Icon} name="right" /></a></li>`)}</ul>`
      : html`<div class="body muted">Nothing.</div>`}</section>`;
}

/** @param {{storage: any, numbers: any}} props */
function Storage({ storage, numbers }) {
  const limit = storage.bytes_max || storage.bytes + storage.disk_free_bytes;
  const share = limit ? storage.bytes / limit : 0;
  const tone = storage.full_in_s !== null && storage.full_in_s < 86_400 ? 'warn' : '';
  return html`<section class="panel"><header><h2>Storage</h2></header><div class="body">
    <p><span class="value">${bytes(storage.bytes)}</span> of ${bytes(limit)}${storage.full_in_s !== null && html`, <span class=${tone}>full in ${duration(storage.full_in_s)}</span>`}</p>
    <span class=${`bar ${share > 0.9 ? 'bad' : share > 0.75 ? 'warn' : ''}`} aria-hidden="true"><i style=${{ width: `${Math.min(100, share * 100)}%` }}></i></span>
    <dl class="facts" style=${{ marginTop: '12px' }}>
      <dt>Messages</dt><dd>${count(storage.messages)}</dd>
      <dt>Grows by</dt><dd>${storage.growth_bytes_per_s === null ? 'too early to say' : `${bytes(Math.max(0, storage.growth_bytes_per_s))}/s`}</dd>
      <dt>Free on the disk</dt><dd>${bytes(storage.disk_free_bytes)}</dd>
      <dt>Retained</dt><dd><a href=${address('topics', { tab: 'retained' })}>${count(numbers.retained)}</a></dd>
      ${numbers.pending_capture_bytes > 0 && html`<dt>Capture pending</dt><dd>${bytes(numbers.pending_capture_bytes)}</dd>`}
      ${storage.full_means && html`<dt>When full</dt><dd>${visible(storage.full_means)}</dd>`}
    </dl></div></section>`;
}

/** @param {{items: any[]}} props */
function Busiest({ items }) {
  return html`<section class="panel"><header><h2>Busiest topics</h2><span class="muted">of the newest 10,000 messages</span></header>
    ${items.length ? html`<div class="table"><table><caption class="sr">Busiest topics</caption><thead><tr><th scope="col">Topic</th><th scope="col" class="number">Share</th><th scope="col" class="number">Rate</th><th scope="col" class="number">Bytes</th></tr></thead>
      <tbody>${items.slice(0, 8).map((item) => html`<tr><td class="wide"><a class="mono" href=${address('topics', { topic: item.name })}>${visible(item.name)}</a></td><td class="number">${percent(item.share)}</td><td class="number">${rate(item.rate_per_s)}</td><td class="number">${bytes(item.bytes)}</td></tr>`)}</tbody></table></div>`
      : html`<div class="body muted">No messages in the journal.</div>`}</section>`;
}

/** @param {{cluster: any}} props */
function ClusterPanel({ cluster }) {
  const isAlone = cluster.nodes.length <= 1;
  return html`<section class="panel"><header><h2>Cluster</h2>${!isAlone && html`<span class="muted">term ${cluster.term}</span>`}<span class="grow"></span><a href=${address('cluster')}>Nodes</a></header><div class="body">
    ${isAlone ? html`<p class="muted">One node. Three survive the loss of any one.</p>` : html`<p>${capital(visible(cluster.text))}</p><ul class="row" style=${{ marginTop: '8px' }}>${cluster.nodes.map((node) => html`<li class=${`tag ${node.silent ? 'bad' : ''}`}>node ${node.node}${node.leads ? ', leads' : ''}${node.this ? ', this' : ''}${node.learner ? ', learner' : ''}${node.silent ? ', silent' : node.lag ? `, ${count(node.lag)} behind` : ''}</li>`)}</ul>`}</div></section>`;
}

/** @param {{title: string, codes: Record<string, number>, none: string}} props */
function Reasons({ title, codes, none }) {
  const rows = Object.entries(codes).sort((a, b) => b[1] - a[1]);
  return html`<section class="panel"><header><h2>${title}</h2></header><div class="body">${rows.length
    ? html`<dl class="facts">${rows.map(([code, number]) => html`<dt class="mono">${visible(code)}</dt><dd class="value">${count(number)}</dd>`)}</dl>` : html`<p class="muted">${none}</p>`}</div></section>`;
}

/** @param {{series: any, range: string}} props */
function HistoryPanel({ series, range }) {
  const [name, setName] = useState('');
  const names = series ? [...series.lines.keys()] : [];
  const line = series?.lines.get(name) ?? null;
  const drawn = useMemo(() => line && { times: line.values.map((_, index) => series.start + index * series.step), lines: [{ name: line.text || words(line.name), values: line.values }] }, [line, series]);
  const show = line?.unit === 'bytes' ? bytes : line?.unit === 'ms' ? milliseconds : line?.unit === 'per_s' ? rate : line?.unit === 'count' ? short : digits;
  if (!names.length) return null;
  return html`<section class="panel wide"><header><h2>History</h2><label class="row"><span class="muted">of</span><select aria-label="Series" value=${name} onChange=${(event) => setName(event.target.value)}>
      <option value="">choose a series</option>${names.map((one) => html`<option value=${one} selected=${one === name}>${words(one)}</option>`)}</select></label><span class="muted">last ${range === '15m' ? '15 minutes' : '24 hours'}</span></header>
    ${drawn && html`<div class="body"><${Chart} key=${name + range} label=${words(name)} times=${drawn.times} lines=${drawn.lines} show=${show} /></div>`}</section>`;
}
