/** Settings: what is in force, where it comes from, and how much of each limit is used. It only shows. */
import { html, useMemo } from '../ui.js';
import { count, percent, plural, visible } from '../format.js';
import { useResource } from '../live.js';
import { refine } from '../router.js';
import { Check, Filter } from '../parts/fields.js';
import { Copy, Empty, Loading, ProblemNote } from '../parts/states.js';

/** A file with the settings. Pure. @param {any[]} items */
export function tomlOf(items) {
  const sections = new Map();
  for (const item of items.filter((one) => !one.secret)) {
    const name = item.name.startsWith(`${item.section}.`) ? item.name.slice(item.section.length + 1) : item.name;
    sections.set(item.section, [...(sections.get(item.section) ?? []), `${name} = ${item.toml}`]);
  }
  return [...sections].map(([section, lines]) => `${section ? `[${section}]\n` : ''}${lines.join('\n')}\n`).join('\n');
}

/** @param {any} item */
const isLimit = (item) => item.used != null && typeof item.value === 'number' && item.value > 0;

/** @param {{query: Record<string, string>}} props */
export function Settings({ query }) {
  const { data, problem, reload } = useResource('settings', {}, { every: 15_000 });
  const find = (query.find ?? '').toLowerCase();
  const shown = useMemo(() => (data?.items ?? []).filter((item) => (!query.changed || !item.is_default) && (!query.used || isLimit(item)) && (!find || `${item.name} ${item.text}`.toLowerCase().includes(find))), [data, find, query.changed, query.used]);
  if (!data) return problem ? html`<h1>Settings</h1><${ProblemNote} problem=${problem} onRetry=${reload} />` : html`<${Loading} />`;
  const sections = [...new Set(shown.map((item) => item.section))];
  return html`<div class="page-head"><h1>Settings</h1><span class="grow"></span><span class="muted">${data.file ? html`from <code>${visible(data.file)}</code>` : 'no configuration file'}</span><${Copy} label="Copy as TOML" text=${tomlOf(shown)} /></div>
    <div class="filters"><${Filter} label="Find" value=${query.find ?? ''} onChange=${(value) => refine({ find: value })} /><${Check} label="changed only" checked=${query.changed === '1'} onChange=${(on) => refine({ changed: on ? '1' : '' })} /><${Check} label="limits in use" checked=${query.used === '1'} onChange=${(on) => refine({ used: on ? '1' : '' })} /><span class="muted">${plural(shown.length, 'setting')}</span></div>
    <${ProblemNote} problem=${problem} />
    ${!shown.length && html`<${Empty} title="No setting matches" />`}
    ${sections.map((section) => html`<section style=${{ marginBottom: '16px' }}><h2 style=${{ margin: '8px 0' }}>${section || 'general'}</h2><div class="table settings" tabIndex="0" role="region" aria-label=${`Settings of ${section || 'general'}`}><table><caption class="sr">${section || 'general'}</caption><thead><tr><th scope="col">Setting</th><th scope="col">Value</th><th scope="col">From</th><th scope="col">Meaning</th></tr></thead>
      <tbody>${shown.filter((item) => item.section === section).map((item) => html`<${Row} key=${item.name} item=${item} />`)}</tbody></table></div></section>`)}`;
}

/** @param {{item: any}} props */
function Row({ item }) {
  const share = isLimit(item) ? item.used / item.value : 0;
  return html`<tr><td class="mono"><span class=${item.is_default ? '' : 'chosen'}>${item.name}</span></td>
    <td><span class="mono">${item.secret ? (item.value ? 'set, hidden' : 'not set') : visible(item.toml)}</span>${isLimit(item) && html`<br /><span class=${share > 0.8 ? 'warn' : 'muted'}>${count(item.used)} used, ${percent(share)}</span>`}${!item.is_default && !item.secret && html`<br /><span class="muted">default ${visible(typeof item.default === 'string' ? item.default : JSON.stringify(item.default))}</span>`}</td>
    <td>${item.is_default ? html`<span class="muted">default</span>` : visible(item.source)}</td>
    <td class="text">${visible(item.text)}${item.used_text ? html` <span class="muted">Used: ${visible(item.used_text)}.</span>` : ''} <span class="muted mono">${item.environment}</span>${!item.live ? html` <span class="tag">restart</span>` : ''}</td></tr>`;
}
