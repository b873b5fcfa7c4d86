/** Topics: the tree with live values, and one topic: its messages, a chart, what is retained. */
import { html, useEffect, useState, useStore } from '../ui.js';
import { call, newKey } from '../api.js';
import { bytes, count, plural, rate, visible } from '../format.js';
import { useKey } from '../keys.js';
import { useResource } from '../live.js';
import { address, go, refine } from '../router.js';
import { choices, toast, togglePin } from '../state.js';
import { confirm } from '../parts/dialog.js';
import { Filter, Tabs } from '../parts/fields.js';
import { Icon, Mark } from '../parts/icons.js';
import { Publish } from '../parts/publish.js';
import { Empty, Loading, ProblemNote, Time } from '../parts/states.js';
import { TopicTree } from '../parts/tree.js';
import { FieldChart } from './fieldchart.js';
import { Messages } from './messages.js';
import { Retained } from './retained.js';

/** @param {{query: Record<string, string>}} props */
export function Topics({ query }) {
  const [form, setForm] = useState(/** @type {any} */ (null));
  const { pinned } = useStore(choices);
  const topic = query.topic ?? '';
  useKey('p', () => setForm({ topic }));
  const isRetained = !topic && query.tab === 'retained';
  return html`<div class="page-head"><h1>Topics</h1><span class="grow"></span>
      <a class="button" href=${isRetained ? address('topics') : address('topics', { tab: 'retained' })}>${isRetained ? 'All topics' : 'Retained'}</a>
      <button type="button" class="primary" onClick=${() => setForm({ topic })}>Publish</button></div>
    <div class="split">
      <section aria-label="Tree of topics">
        <div class="filters"><${Filter} label="Topic prefix" value=${query.prefix ?? ''} onChange=${(prefix) => refine({ prefix })} class="grow mono" /></div>
        <${TopicTree} key=${(query.prefix ?? '').replace(/[^/]*$/, '')} prefix=${query.prefix ?? ''} chosen=${topic} onChoose=${(name) => go(address('topics', { prefix: query.prefix, topic: name, tab: query.topic ? query.tab : '' }))}
          empty=${query.prefix ? html`<${Empty} title="No topic begins like this" />` : html`<${Empty} title="No message was published yet" command="penstock pub hello world">Topics appear with their first message.<//>`} />
        ${pinned.length > 0 && html`<${Pinned} topics=${pinned} />`}
      </section>
      <section aria-label=${topic ? `Topic ${visible(topic)}` : 'Chosen topic'}>
        ${topic ? html`<${OneTopic} key=${topic} topic=${topic} query=${query} onPublish=${setForm} />`
          : isRetained ? html`<${Retained} query=${query} />`
          : html`<${Empty} title="Choose a topic">Its messages, a chart of its values and who gets it appear here.<//>`}
      </section>
    </div>
    ${form && html`<${Publish} start=${form} onClose=${() => setForm(null)} />`}`;
}

/** @param {{topics: string[]}} props */
const Pinned = ({ topics }) => html`<div class="row" style=${{ marginBottom: '16px' }}><span class="muted">Pinned</span>${topics.map((topic) => html`<a href=${address('topics', { topic })}>${visible(topic)}</a>`)}</div>`;

/** @param {{topic: string, query: Record<string, string>, onPublish: (start: any) => void}} props */
function OneTopic({ topic, query, onPublish }) {
  const { data, problem, isLoading, reload } = useResource('topics/detail', { name: topic }, { every: 5_000 });
  const { pinned } = useStore(choices);
  const tab = query.tab ?? 'messages';
  const isPinned = pinned.includes(topic);
  useEffect(() => reload, []);
  return html`<div class="page-head"><h2 class="mono">${visible(topic)}</h2>
      <button type="button" class="plain" aria-pressed=${isPinned} onClick=${() => togglePin(topic)}><${Icon} name="pin" tone=${isPinned ? 'ok' : ''} />${isPinned ? 'Pinned' : 'Pin'}</button>
      <span class="grow"></span><${Summary} data=${data} /></div>
    <${ProblemNote} problem=${problem} onRetry=${reload} />
    <${Tabs} label="Topic" value=${tab} onChange=${(name) => refine({ tab: name === 'messages' ? '' : name })} tabs=${[['messages', 'Messages'], ['chart', 'Chart'], ['retained', 'Retained'], ['about', 'About']]} />
    ${tab === 'messages' && html`<${Messages} topic=${topic} query=${query} detail=${data} onPublish=${onPublish} />`}
    ${tab === 'chart' && html`<div class="scroll"><${FieldChart} topic=${topic} query=${query} /></div>`}
    ${tab === 'retained' && html`<${Retained} query=${{ filter: query.filter ?? topic }} isOne />`}
    ${tab === 'about' && html`<div class="scroll">${isLoading && !data ? html`<${Loading} />` : data && html`<${About} data=${data} />`}</div>`}`;
}

/** @param {{data: any}} props */
const Summary = ({ data }) => data && html`<span class="muted">${plural(data.messages, 'message')} · ${bytes(data.bytes)} · <span class="value">${rate(data.rate_per_s)}</span></span>`;

/** @param {{data: any}} props */
function About({ data }) {
  const { matches } = data;
  const remove = () => confirm({
    title: `Delete ${visible(data.name)}`, verb: 'Delete', danger: true,
    preview: async () => {
      const found = await call('DELETE', 'topics', { body: { name: data.name, dry_run: true } });
      return { text: `${count(found.messages)} messages (${bytes(found.bytes)}) are deleted${found.groups.length ? `, and the groups ${found.groups.join(', ')}` : ''}. This cannot be undone.`, verb: `Delete ${count(found.messages)} messages`, name: data.name };
    },
    run: async () => {
      await call('DELETE', 'topics', { body: { name: data.name }, key: newKey() });
      toast(`Deleted ${data.name}`);
      go(address('topics'));
    },
  });
  return html`<dl class="facts">
      <dt>Offsets</dt><dd>${data.messages || data.next_offset ? `${data.first_offset} to ${data.next_offset - 1}, next ${data.next_offset}` : 'none yet'}</dd>
      <dt>First seen</dt><dd><${Time} at=${data.created} /></dd>
      <dt>Last message</dt><dd><${Time} at=${data.last_time} /></dd>
      <dt>Capture of QoS 0</dt><dd><${Mark} tone=${data.capture.captured ? 'ok' : 'info'}>${data.capture.captured ? 'journaled' : 'not journaled'}<//> <span class="muted">${visible(data.capture.text)}</span></dd>
      <dt>Signatures</dt><dd>${data.signature_required ? 'required' : 'not required'}</dd>
      <dt>Retained</dt><dd>${data.retained ? html`<a href=${address('topics', { topic: data.name, tab: 'retained' })}>yes</a>` : 'no'}</dd>
      <dt>Who gets it now</dt><dd>${count(matches.sessions)} MQTT sessions (${count(matches.away)} away), ${count(matches.live)} other subscribers${matches.examples.map((id) => html`, <a href=${address('clients', { client: id })}>${visible(id)}</a>`)}</dd>
      <dt>Groups</dt><dd>${data.groups.length ? data.groups.map((group, index) => html`${index ? ', ' : ''}<a href=${address('groups', { topic: data.name, group: group.group })}>${visible(group.group)}</a> <span class="muted">(lag ${count(group.lag)})</span>`) : 'none'}</dd>
      <dt>Explain</dt><dd><a href=${address('why', { q: data.name })}>Who would get a message, and why</a></dd>
    </dl><hr class="sep" /><button type="button" class="danger" onClick=${remove} disabled=${!data.exists}>Delete topic</button>`;
}
