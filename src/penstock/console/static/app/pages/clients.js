/** Clients and sessions: who is connected, who is away, what waits for them; kick them, or end a session. */
import { html } from '../ui.js';
import { call, newKey } from '../api.js';
import { ago, bytes, count, duration, plural, time, visible, words } from '../format.js';
import { useList } from '../live.js';
import { address, refine } from '../router.js';
import { toast } from '../state.js';
import { TYPE_NAME_FROM, confirm } from '../parts/dialog.js';
import { Check, Choice, Filter, Tabs } from '../parts/fields.js';
import { Mark } from '../parts/icons.js';
import { Advice, Close, Empty, Loading, Partial, ProblemNote, Reason, Time } from '../parts/states.js';
import { Table } from '../parts/table.js';

const ENDS = /** @type {Record<string, string>} */ ({
  client_disconnect: 'said goodbye', connection_lost: 'connection broke', keep_alive_timeout: 'fell silent', session_taken_over: 'id taken over',
  server_shutdown: 'broker stopped', slow_reader: 'read too slowly', credentials_revoked: 'credentials revoked',
});

/** Whether somebody should look: it broke off, or messages wait. @param {any} row */
const awayTone = (row) => (row.queued || row.dropped || (row.ended && row.ended !== 'client_disconnect') ? 'warn' : 'info');

/** @param {any} client */
const nameOf = (client) => (client.client_id ? visible(client.client_id) : `(no id) ${visible(client.address ?? '')}`);

const COLUMNS = [
  { name: 'Client', card: /** @type {1} */ (1), show: (row) => html`<span class="mono">${nameOf(row)}</span>` },
  { name: 'State', card: /** @type {2} */ (2), show: (row) => (row.away ? html`<span title=${row.ended ?? ''}><${Mark} tone=${awayTone(row)}>away${row.ended ? `: ${ENDS[row.ended] ?? words(row.ended)}` : ''}<//></span>` : html`<${Mark} tone="ok">${row.protocol}${row.version ? ` ${row.version}` : ''}<//>`) },
  { name: 'From', show: (row) => html`<span class="mono">${visible(row.address ?? '–')}</span>` },
  { name: 'User', show: (row) => visible(row.user || '–') },
  { name: 'Since', show: (row) => html`<span title=${row.since ?? ''}>${ago(row.since)}</span>` },
  { name: 'Seen', title: 'how long ago it sent something', show: (row) => (row.idle_s == null ? (row.seen ? ago(row.seen) : '–') : duration(Math.round(row.idle_s))) },
  { name: 'Subs', number: true, show: (row) => count(row.subscriptions) },
  { name: 'In flight', number: true, show: (row) => count(row.in_flight) },
  { name: 'Queued', number: true, card: /** @type {3} */ (3), show: (row) => html`<span class=${row.queued ? 'warn' : ''}>${count(row.queued)}</span>` },
  { name: 'Dropped', number: true, show: (row) => html`<span class=${row.dropped ? 'bad' : ''}>${count(row.dropped)}</span>` },
  { name: 'Node', number: true, show: (row) => row.node },
];

/** @param {any} row */
const idOf = (row) => `${row.client_id}\n${row.node}\n${row.address}`;

/** @param {{query: Record<string, string>}} props */
export function Clients({ query }) {
  const asked = { prefix: query.prefix ?? query.client, protocol: query.protocol, away: query.away === '1' ? true : undefined, backlog: query.backlog === '1' ? true : undefined, dropped: query.dropped === '1' ? true : undefined };
  const list = useList('clients', asked, { every: 3_000 });
  const chosen = query.client || query.address ? list.items.find((row) => row.client_id === (query.client ?? '') && (!query.address || row.address === query.address)) : null;
  const toggle = (name) => (on) => refine({ [name]: on ? '1' : '' });
  const isFiltered = Object.values(asked).some(Boolean);
  return html`<div class="page-head"><h1>Clients</h1></div>
    <div class="filters">
      <${Filter} label="Client id prefix" value=${query.prefix ?? query.client ?? ''} onChange=${(prefix) => refine({ prefix, client: '' })} />
      <${Choice} bare label="Protocol" value=${query.protocol ?? ''} onChange=${(protocol) => refine({ protocol })} options=${[['', 'every protocol'], ['mqtt', 'MQTT'], ['resp', 'RESP'], ['binary', 'binary'], ['queue', 'queue']]} />
      <${Check} label="away" checked=${query.away === '1'} onChange=${toggle('away')} /><${Check} label="with backlog" checked=${query.backlog === '1'} onChange=${toggle('backlog')} /><${Check} label="with drops" checked=${query.dropped === '1'} onChange=${toggle('dropped')} />
    </div>
    <${ProblemNote} problem=${list.problem} onRetry=${list.reload} /><${Partial} incomplete=${list.incomplete} />
    <${Table} label="Clients" fill columns=${COLUMNS} rows=${list.items} id=${idOf} chosen=${chosen ? idOf(chosen) : ''} hasMore=${Boolean(list.next)} onMore=${list.more}
      onChoose=${(row) => refine({ client: row.client_id, address: row.client_id ? '' : row.address, prefix: query.prefix ?? '', tab: query.tab })}
      empty=${list.isLoading ? html`<${Loading} />` : isFiltered ? html`<${Empty} title="No client like this"><button type="button" class="link" onClick=${() => refine({ prefix: '', client: '', protocol: '', away: '', backlog: '', dropped: '' })}>Show all</button><//>`
        : html`<${Empty} title="Nobody is connected" command=${`penstock sub '#'`}>Listening on ${location.host}: MQTT, RESP, the binary and the queue protocol, all on this port.<//>`} />
    ${(query.client || query.address) && html`<${Detail} key=${`${query.client}${query.address}`} id=${query.client ?? ''} client=${chosen} query=${query} onChange=${list.reload} />`}`;
}

/** @param {{id: string, client: any, query: Record<string, string>, onChange: () => void}} props */
function Detail({ id, client, query, onChange }) {
  const tab = query.tab ?? 'events';
  const name = visible(id || query.address);
  const kick = () => confirm({ title: `Kick ${name}`, text: 'Its connection is ended. It may come back at once: a ban keeps it out.', verb: `Kick ${name}`, danger: true,
    run: async () => {
      const done = await call('DELETE', 'clients', { body: { client_id: id, ...(id ? {} : { address: client?.address }) }, key: newKey() });
      toast(`Ended ${plural(done.connections, 'connection')} of ${id}`);
      onChange();
    } });
  const end = () => confirm({ title: `End the session of ${name}`, verb: 'End session', danger: true,
    preview: async () => {
      const found = await call('DELETE', 'sessions', { body: { client_id: id, dry_run: true } });
      return { text: `${plural(found.subscriptions, 'subscription')}, ${plural(found.queued, 'queued message')} and ${count(found.in_flight)} in flight are lost for this client.${found.connected ? ' It is connected and will be disconnected.' : ''}`,
        verb: `End session, lose ${count(found.queued)}`, name: found.queued > TYPE_NAME_FROM ? id : '' };
    },
    run: async () => {
      await call('DELETE', 'sessions', { body: { client_id: id }, key: newKey() });
      toast(`The session of ${id} was ended`);
      onChange();
    } });
  return html`<section class="detail" aria-label=${`Client ${name}`}><header><h2 class="mono grow">${name}</h2>
      <a class="button" href=${address('why', { q: id })}>Why</a>
      <button type="button" onClick=${kick} disabled=${client?.away}>Kick</button>${client?.protocol === 'mqtt' && html`<button type="button" class="danger" onClick=${end}>End session</button>`}
      <${Close} onClick=${() => refine({ client: '', address: '', tab: '' })} /></header>
    <${Tabs} label="Client" value=${tab} onChange=${(value) => refine({ tab: value })} tabs=${[['events', 'Events'], ['subscriptions', 'Subscriptions'], ['connection', 'Connection']]} />
    <div class="scroll">${tab === 'events' && html`<${EventList} query=${{ client_id: id }} none="Nothing was recorded about this client: what ends well leaves no event." />`}
      ${tab === 'subscriptions' && html`<${Subscriptions} id=${id} />`}${tab === 'connection' && html`<${Connection} client=${client} />`}</div></section>`;
}

/** @param {{query: Record<string, unknown>, none: string}} props */
export function EventList({ query, none }) {
  const list = useList('events', query, { every: 3_000, limit: 100 });
  return html`<${ProblemNote} problem=${list.problem} onRetry=${list.reload} /><${Partial} incomplete=${list.incomplete} />
    ${list.isLoading && !list.items.length ? html`<${Loading} />` : !list.items.length && !list.problem ? html`<p class="muted">${none}</p>` : ''}
    <ol class="timeline">${list.items.slice(0, 200).map((event) => html`<li key=${event.id} class=${event.kind === 'connected' || event.kind === 'traced' || event.reason === 'client_disconnect' ? '' : 'trouble'}>
      <span class="mono nowrap">${time(event.at)}</span><span class="text">${visible(event.text || words(event.kind))} <${Reason} code=${event.reason === 'returned' ? '' : event.reason} />${!query.client_id && event.client_id && html` <a class="mono" href=${address('clients', { client: event.client_id })}>${visible(event.client_id)}</a>`}${event.topic && html` <a class="mono" href=${address('topics', { topic: event.topic })}>${visible(event.topic)}</a>`}
      ${event.advice && event.reason !== 'client_disconnect' && html`<br /><span class="muted"><${Advice} text=${event.advice} /></span>`}</span></li>`)}</ol>
    ${list.next && html`<button type="button" onClick=${list.more}>Older</button>`}`;
}

/** @param {{id: string}} props */
function Subscriptions({ id }) {
  const list = useList('subscriptions', { client_id: id }, { every: 5_000 });
  const columns = [
    { name: 'Filter', wide: true, card: /** @type {1} */ (1), show: (row) => html`<span class="mono">${visible(row.filter)}</span>` },
    { name: 'Share', show: (row) => visible(row.share ?? '–') }, { name: 'QoS', number: true, card: /** @type {3} */ (3), show: (row) => row.qos },
    { name: 'Options', card: /** @type {2} */ (2), show: (row) => [row.no_local && 'no local', row.retain_as_published && 'retain as published', row.retain_handling && `retain handling ${row.retain_handling}`, row.identifier && `id ${row.identifier}`].filter(Boolean).join(', ') || '–' },
  ];
  return html`<${ProblemNote} problem=${list.problem} /><${Table} label="Subscriptions" columns=${columns} rows=${list.items} id=${(row) => `${row.share}/${row.filter}`} hasMore=${Boolean(list.next)} onMore=${list.more}
    empty=${list.isLoading ? html`<${Loading} />` : html`<${Empty} title="No subscriptions" />`} />`;
}

/** @param {{client: any}} props */
function Connection({ client }) {
  if (!client) return html`<${Empty} title="Not connected, and no session">Its events may say why.<//>`;
  const fact = (name, value) => value != null && value !== '' && html`<dt>${name}</dt><dd>${value}</dd>`;
  return html`<dl class="facts">
    ${fact('Protocol', `${client.protocol} ${client.version}${client.websocket ? ' by WebSocket' : ''}${client.encrypted ? ', encrypted' : ''}`)}${fact('From', visible(client.address ?? ''))}${fact('User', visible(client.user))}${fact('Node', client.node)}
    ${fact(client.away ? 'Away since' : 'Connected since', html`<${Time} at=${client.since} />`)}${fact('Session', client.persistent ? 'persistent' : 'ends with the connection')}${fact('Session expires', client.expires && html`<${Time} at=${client.expires} />`)}
    ${fact('Keep-alive', client.keep_alive_s == null ? '' : client.keep_alive_s ? `${client.keep_alive_s} s` : 'off')}${fact('Received from it', client.bytes_in == null ? '' : bytes(client.bytes_in))}${fact('Sent to it', client.bytes_out == null ? '' : bytes(client.bytes_out))}${fact('Waits to be sent', client.output_bytes == null ? '' : bytes(client.output_bytes))}
    ${fact('Will', client.will && html`<span class="mono">${visible(client.will.topic)}</span>, ${bytes(client.will.payload_bytes)}, QoS ${client.will.qos}${client.will.retain ? ', retained' : ''}${client.will.delay_s ? `, after ${duration(client.will.delay_s)}` : ''}`)}</dl>`;
}
