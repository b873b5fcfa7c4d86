/** Why: what became of a client, a message, a topic or a publish, in plain words. */
import { classes, html, useEffect, useState } from '../ui.js';
import { call, get, session } from '../api.js';
import { count, time, visible, words } from '../format.js';
import { useKey } from '../keys.js';
import { address, refine } from '../router.js';
import { Check, Choice, Field } from '../parts/fields.js';
import { Icon, Mark } from '../parts/icons.js';
import { Advice, Command, Loading, Partial, ProblemNote, Reason } from '../parts/states.js';
import { EventList } from './clients.js';

const GOOD = new Set(['delivered', 'done', 'retained', 'connected', 'would_pass', 'accepted', 'live', 'passes']);
const CALM = new Set(['queued', 'in_flight', 'leased', 'not_due', 'backing_off', 'retained_replaced']);

/** @param {string} fate @returns {'ok' | 'warn' | 'bad' | 'info'} */
export const toneOf = (fate) => (GOOD.has(fate) ? 'ok' : CALM.has(fate) ? 'info' : 'warn');

/** What a question is about, by its form. Pure. @param {string} text @param {string} kind */
export function questionOf(text, kind) {
  const at = /^(.+)@(\d+)$/.exec(text);
  if (at && kind !== 'topic' && kind !== 'client') return { path: 'why/message', query: { topic: at[1], offset: at[2] } };
  if (kind === 'client' || (!kind && !text.includes('/'))) return { path: 'why/client', query: { client_id: text } };
  return { path: 'why/topic', query: { topic: text } };
}

/** @param {{query: Record<string, string>}} props */
export function Why({ query }) {
  const [text, setText] = useState(query.q ?? '');
  const [answer, set] = useState(/** @type {any} */ ({ data: null, problem: null, isLoading: false }));
  const asked = query.q ?? '';
  const kind = query.kind ?? '';
  useEffect(() => setText(asked), [asked]);
  useEffect(() => {
    if (!asked || kind === 'publish') {
      set({ data: null, problem: null, isLoading: false });
      return;
    }
    const { path, query: parameters } = questionOf(asked, kind);
    set({ data: null, problem: null, isLoading: true });
    get(path, parameters).then((data) => set({ data, problem: null, isLoading: false }), (problem) => set({ data: null, problem, isLoading: false }));
  }, [asked, kind]);
  useKey('Escape', () => refine({ q: '' }));
  const submit = (event) => {
    event.preventDefault();
    refine({ q: text.trim(), kind: kind === 'publish' ? '' : kind }, { replace: false });
  };
  return html`<div class="page-head"><h1>Why</h1></div>
    <form class="filters" onSubmit=${submit}>${kind !== 'publish' && html`<input class="mono grow" type="text" aria-label="What to explain: a client, topic@offset or a topic" placeholder="pump-7, mail/out@118, plant/p7/temp" value=${text} onInput=${(event) => setText(event.target.value)} style=${{ maxWidth: '480px' }} spellcheck=${false} autocomplete="off" />`}
      <${Choice} bare label="What it is" value=${kind} onChange=${(value) => refine({ kind: value })} options=${[['', 'anything'], ['client', 'client'], ['message', 'message'], ['topic', 'topic'], ['publish', 'a publish, tried']]} />
      ${kind !== 'publish' && html`<button class="primary" type="submit" disabled=${!text.trim()}>Explain</button>`}</form>
    ${kind === 'publish' ? html`<${TryPublish} topic=${asked} set=${set} />` : ''}
    ${answer.isLoading && html`<${Loading} />`}<${ProblemNote} problem=${answer.problem} />
    ${answer.data && html`<${Explanation} why=${answer.data} />`}
    ${!asked && kind !== 'publish' && html`<div class="grid"><section><h2>Ask about</h2><ul class="form" style=${{ marginTop: '8px', gap: '4px' }}>
        <li><span class="mono">pump-7</span> <span class="muted">a client: why was it thrown out?</span></li><li><span class="mono">mail/out@118</span> <span class="muted">a message: why did nobody get it?</span></li>
        <li><span class="mono">plant/p7/temp</span> <span class="muted">a topic: who would get a message?</span></li><li><a href=${address('why', { kind: 'publish' })}>A publish</a> <span class="muted">would it be accepted?</span></li></ul></section>
      <section><h2>Recorded lately</h2><div style=${{ marginTop: '8px' }}><${EventList} query=${{}} none="Nothing: everything ended well." /></div></section></div>`}`;
}

/** @param {{topic: string, set: (state: any) => void}} props */
function TryPublish({ topic, set }) {
  const [form, change] = useState({ topic, user: session.get().who?.user ?? '', payload_bytes: '0', qos: '1', retain: false });
  const put = (name) => (value) => change({ ...form, [name]: value });
  const ask = (event) => {
    event.preventDefault();
    set({ data: null, problem: null, isLoading: true });
    call('POST', 'why/publish', { body: { ...form, payload_bytes: Number(form.payload_bytes), qos: Number(form.qos) } })
      .then((data) => set({ data, problem: null, isLoading: false }), (problem) => set({ data: null, problem, isLoading: false }));
  };
  return html`<form class="form panel" onSubmit=${ask} style=${{ marginBottom: '16px', maxWidth: '760px' }}><div class="body form"><div class="pair"><${Field} label="Topic" mono value=${form.topic} onChange=${put('topic')} required /><${Field} label="As user" value=${form.user} onChange=${put('user')} /></div>
    <div class="pair"><${Field} label="Payload bytes" type="number" min="0" value=${form.payload_bytes} onChange=${put('payload_bytes')} /><${Choice} label="QoS" value=${form.qos} onChange=${put('qos')} options=${[['0', '0'], ['1', '1'], ['2', '2']]} /></div>
    <div class="row"><${Check} label="Retain" checked=${form.retain} onChange=${put('retain')} /><button class="primary" type="submit" disabled=${!form.topic}>Explain</button><span class="muted">Nothing is published.</span></div></div></form>`;
}

/** @param {{why: any}} props */
function Explanation({ why }) {
  const tone = toneOf(why.fate);
  const { subject } = why;
  const facts = besides(why);
  const link = subject.client_id ? address('clients', { client: subject.client_id }) : subject.topic ? address('topics', { topic: subject.topic, ...(subject.offset != null ? { offset: subject.offset, message: subject.offset } : {}) }) : '';
  return html`<article aria-label="Explanation"><div class="verdict"><span style=${{ paddingTop: '3px' }}><${Icon} name=${tone} tone=${tone} size=${20} /></span><div class="grow"><p class="tag">${words(why.fate)}</p><h2 style=${{ marginTop: '4px' }}>${visible(why.summary)}</h2>${link && html`<a href=${link}>Show ${subject.client_id ? 'the client' : 'the topic'}</a>`}</div></div>
    <${Partial} incomplete=${why.incomplete} />
    ${why.checks.length > 0 && html`<section class="panel" style=${{ marginBottom: '16px' }}><header><h2>What it depends on</h2></header><ul class="body form" style=${{ gap: '4px' }}>${why.checks.map((check) => html`<li class="row"><${Mark} tone=${check.passes ? 'ok' : 'bad'}>${words(check.code)}<//><span class="grow">${visible(check.text)}</span><span class="tag">${words(check.certainty)}</span></li>`)}</ul></section>`}
    ${facts.length > 0 && html`<ol class="timeline" style=${{ marginBottom: '16px' }}>${facts.map((fact) => html`<li class=${fact.is_trouble ? 'trouble' : ''}><span class="mono nowrap">${fact.at ? html`<time dateTime=${fact.at}>${time(fact.at)}</time>` : html`<span class="muted">as of now</span>`}</span>
      <span class="text">${fact.is_trouble && html`<span class="sr">Trouble: </span>`}${visible(fact.text)}</span><${Reason} code=${fact.code} /><span class="tag">${words(fact.certainty)}</span></li>`)}</ol>`}
    ${why.receivers.length > 0 && html`<${Receivers} why=${why} />`}
    ${why.near.length > 0 && html`<p>Filters that almost match: ${why.near.map((one) => html`<code>${visible(one)}</code> `)}</p>`}
    ${why.advice.length > 0 && html`<section class="panel" style=${{ margin: '16px 0' }}><header><h2>What to do</h2></header><ul class="body form">${why.advice.map((one) => html`<li class="form" style=${{ gap: '4px', justifyItems: 'start' }}><span><${Advice} text=${one.text} /></span>${one.command && html`<${Command} text=${one.command} />`}</li>`)}</ul></section>`}
    ${why.not_kept.length > 0 && html`<p class="muted">Not kept: ${why.not_kept.map(visible).join(', ')}.</p>`}</article>`;
}

/** Facts that do not stand in the table of receivers. Pure. @param {any} why */
export function besides({ facts, receivers }) {
  const told = new Set(receivers.map((one) => `${one.name}: ${one.text}`));
  return facts.filter((fact) => fact.at || !told.has(fact.text));
}

const RECEIVERS = /** @type {{name: string, number?: boolean, wide?: boolean, mono?: boolean, value: (one: any) => any}[]} */ ([
  { name: 'Receiver', value: (one) => html`<span class="muted">${one.kind}</span> <span class="mono">${visible(one.name)}</span>` },
  { name: 'Fate', value: (one) => html`<${Mark} tone=${toneOf(one.fate)}>${words(one.fate)}<//>` },
  { name: 'Matched by', mono: true, value: (one) => visible(one.filter ?? '') },
  { name: 'Holder', mono: true, value: (one) => visible(one.holder ?? '') },
  { name: 'Tries', number: true, value: (one) => (one.attempts ? `${one.attempts}${one.attempts_max ? ` of ${one.attempts_max}` : ''}` : '') },
  { name: 'In words', wide: true, value: (one) => visible(one.text) },
]);

/** @param {{why: any}} props */
function Receivers({ why }) {
  const columns = RECEIVERS.filter((column) => why.receivers.some((one) => column.value(one)));
  const look = (column) => classes(column.number && 'number', column.wide && 'wide wrap', column.mono && 'mono');
  return html`<div class="table" tabIndex="0" role="region" aria-label="Receivers"><table><caption class="sr">Receivers</caption><thead><tr>${columns.map((column) => html`<th scope="col" class=${look(column)}>${column.name}</th>`)}</tr></thead>
    <tbody>${why.receivers.map((one) => html`<tr>${columns.map((column) => html`<td class=${look(column)}>${column.value(one) || '–'}</td>`)}</tr>`)}</tbody></table>
    ${why.receivers_total > why.receivers.length && html`<div class="table-foot">The first ${why.receivers.length} of ${count(why.receivers_total)}.</div>`}</div>`;
}
