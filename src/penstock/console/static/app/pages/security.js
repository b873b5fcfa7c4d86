/** Security: users, roles, keys, tokens, bans; who was refused; who changed what; and: may somebody do something? */
import { html, useEffect, useState } from '../ui.js';
import { call, get, newKey } from '../api.js';
import { ago, count, plural, visible, words } from '../format.js';
import { useList, useResource } from '../live.js';
import { address, refine } from '../router.js';
import { toast } from '../state.js';
import { Dialog, confirm } from '../parts/dialog.js';
import { Check, Choice, Field, Tabs } from '../parts/fields.js';
import { Mark } from '../parts/icons.js';
import { Command, Copy, Empty, Loading, Note, Partial, ProblemNote, Time } from '../parts/states.js';
import { Table } from '../parts/table.js';
import { EventList } from './clients.js';

const TABS = /** @type {[string, string][]} */ ([['check', 'Check'], ['users', 'Users'], ['roles', 'Roles'], ['keys', 'Keys'], ['tokens', 'Tokens'], ['bans', 'Bans'], ['refusals', 'Refusals'], ['audit', 'Audit']]);
const ACTIONS = ['publish', 'subscribe', 'read', 'work', 'manage', 'monitor', 'admin'];

/** @param {{query: Record<string, string>}} props */
export function Security({ query }) {
  const tab = query.tab ?? 'check';
  const users = useResource('users', { limit: 1 });
  const View = { check: CheckAccess, users: Users, roles: Roles, keys: Keys, tokens: Tokens, bans: Bans, audit: Audit, refusals: Refusals }[tab] ?? CheckAccess;
  return html`<div class="page-head"><h1>Security</h1></div>
    ${users.data && users.data.items.length === 0 && html`<${Note} tone="warn">Anyone on this machine may do all: there are no users yet. Make the first administrator: <${Command} text="penstock users add NAME --admin" /><//>`}
    <${Tabs} label="Security" value=${tab} onChange=${(name) => refine({ tab: name === 'check' ? '' : name, open: '' })} tabs=${TABS} />
    <${View} query=${query} />`;
}

/** @param {{query: Record<string, string>}} props */
function CheckAccess({ query }) {
  const [form, set] = useState({ user: query.user ?? '', action: query.action ?? 'publish', topic: query.on ?? '' });
  const [answer, setAnswer] = useState(/** @type {any} */ (null));
  const put = (name) => (value) => set({ ...form, [name]: value });
  const look = async () => {
    try {
      setAnswer({ data: await get('access/check', form) });
    } catch (problem) {
      setAnswer({ problem });
    }
  };
  const ask = (event) => {
    event.preventDefault();
    refine({ user: form.user, action: form.action, on: form.topic });
    look();
  };
  useEffect(() => { if (query.user && query.on) look(); }, []);
  const data = answer?.data;
  return html`<form class="form" style=${{ maxWidth: '760px' }} onSubmit=${ask}><div class="pair"><${Field} label="User" value=${form.user} onChange=${put('user')} required /><${Choice} label="May" value=${form.action} onChange=${put('action')} options=${ACTIONS.map((one) => [one, one])} /><${Field} label="Topic or filter" mono value=${form.topic} onChange=${put('topic')} /></div>
      <div class="row"><button class="primary" type="submit" disabled=${!form.user}>Check</button><span class="muted">By the same rules that decide at every door.</span></div></form>
    <div style=${{ marginTop: '16px' }}><${ProblemNote} problem=${answer?.problem} />
    ${data && html`<section class="panel" style=${{ maxWidth: '760px' }} role="status"><header><${Mark} tone=${data.allowed ? 'ok' : 'bad'}><strong>${data.allowed ? 'Allowed' : 'Denied'}</strong><//><span>${visible(data.subject)} ${visible(data.action)} <span class="mono">${visible(data.topic)}</span></span></header>
      <div class="body form"><p>${visible(data.text)}</p>${data.rule ? html`<p>Decided by rule ${data.rule.number} of role <a href=${address('security', { tab: 'roles', open: data.rule.role })}>${visible(data.rule.role)}</a>: <code>${visible(data.rule.text)}</code></p>` : html`<p>No rule says anything about it, which denies.</p>`}${data.advice && html`<p class="muted">${visible(data.advice)}</p>`}</div></section>`}</div>`;
}

/** @param {any} props */
function Listing({ path, columns, id, label, empty, query = {}, every = 5_000, actions, choose, chosen }) {
  const list = useList(path, query, { every });
  return html`${actions && html`<div class="filters">${actions(list)}</div>`}<${ProblemNote} problem=${list.problem} onRetry=${list.reload} /><${Partial} incomplete=${list.incomplete} />
    ${!(list.problem && !list.items.length) && html`<${Table} label=${label} max=${560} columns=${columns(list)} rows=${list.items} id=${id} hasMore=${Boolean(list.next)} onMore=${list.more} onChoose=${choose} chosen=${chosen} empty=${list.isLoading ? html`<${Loading} />` : empty} />`}`;
}

/** @param {any} props */
function Users({ query }) {
  const [form, setForm] = useState(/** @type {any} */ (null));
  const open = query.open;
  return html`<${Listing} path="users" label="Users" id=${(row) => row.name} choose=${(row) => refine({ open: open === row.name ? '' : row.name })} chosen=${open ?? ''}
      empty=${html`<${Empty} title="There are no users" command="penstock users add NAME --admin">Anyone on this machine may do all; nobody else gets in.<//>`}
      actions=${(list) => html`<button type="button" class="primary" onClick=${() => setForm({ list })}>Add a user</button>`}
      columns=${(list) => [
        { name: 'User', card: 1, show: (row) => html`<strong>${visible(row.name)}</strong>` },
        { name: 'State', card: 3, show: (row) => (row.disabled ? html`<${Mark} tone="warn">disabled<//>` : html`<${Mark} tone="ok">active<//>`) },
        { name: 'Roles', card: 2, show: (row) => row.roles.map(visible).join(', ') || '–' },
        { name: 'Credentials', show: (row) => [row.password && 'password', row.scram && 'SCRAM', row.secrets && plural(row.secrets, 'secret')].filter(Boolean).join(', ') || 'none' },
        { name: 'Client ids', show: (row) => html`<span class="mono">${row.client_ids.map(visible).join(', ') || 'any'}</span>` },
        { name: 'Expires', show: (row) => html`<${Time} at=${row.expires} />` }, { name: 'Note', wide: true, show: (row) => visible(row.note || '–') },
        { name: '', title: 'Actions', show: (row) => html`<span class="row" style=${{ flexWrap: 'nowrap' }}><button type="button" class="link" onClick=${() => toggleUser(row, list.reload)}>${row.disabled ? 'Enable' : 'Disable'}</button><button type="button" class="link" onClick=${() => removeNamed('users', 'user', row.name, list.reload)}>Delete</button></span>` },
      ]} />
    ${form && html`<${AddUser} onClose=${() => setForm(null)} onDone=${form.list.reload} />`}`;
}

/** @param {any} row @param {() => void} done */
const toggleUser = (row, done) => confirm({ title: `${row.disabled ? 'Enable' : 'Disable'} ${visible(row.name)}`, text: row.disabled ? 'The user may log in again.' : 'Its connections are ended, and it cannot log in.', verb: `${row.disabled ? 'Enable' : 'Disable'} ${visible(row.name)}`, danger: !row.disabled,
  run: async () => {
    await call('PATCH', 'users', { body: { name: row.name, disabled: !row.disabled, expected: row.version }, key: newKey() });
    toast(`${row.name} is ${row.disabled ? 'enabled' : 'disabled'}`);
    done();
  } });

/** @param {string} path @param {string} kind @param {string} name @param {() => void} done */
const removeNamed = (path, kind, name, done) => confirm({ title: `Delete the ${kind} ${visible(name)}`, text: 'It takes effect at once, at every door.', verb: `Delete ${visible(name)}`, danger: true,
  run: async () => {
    await call('DELETE', path, { query: { name }, key: newKey() });
    toast(`Deleted the ${kind} ${name}`);
    done();
  } });

/** @param {any} props */
function AddUser({ onClose, onDone }) {
  const [form, set] = useState({ name: '', roles: 'client', note: '', generate: true, password: '' });
  const [made, setMade] = useState(/** @type {any} */ (null));
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const put = (name) => (value) => set({ ...form, [name]: value });
  const add = async (event) => {
    event.preventDefault();
    try {
      const body = { name: form.name, roles: form.roles.split(',').map((one) => one.trim()).filter(Boolean), note: form.note, ...(form.generate ? { generate_secret: true } : { password: form.password }) };
      setMade(await call('POST', 'users', { body, key: newKey() }));
      onDone();
    } catch (error) {
      setProblem(error);
    }
  };
  if (made) return html`<${Secret} title=${`User ${visible(made.name)} was added`} secret=${made.secret} onClose=${onClose} />`;
  return html`<${Dialog} title="Add a user" onClose=${onClose}><form onSubmit=${add}><div class="body"><${Field} label="Name" value=${form.name} onChange=${put('name')} required autofocus /><${Field} label="Roles, separated by commas" value=${form.roles} onChange=${put('roles')} /><${Field} label="Note" value=${form.note} onChange=${put('note')} />
    <${Check} label="Generate a secret (shown once)" checked=${form.generate} onChange=${put('generate')} />${!form.generate && html`<${Field} label="Password" type="password" value=${form.password} onChange=${put('password')} autocomplete="new-password" required />`}<${ProblemNote} problem=${problem} /></div>
    <footer><button type="button" onClick=${onClose}>Cancel</button><button class="primary" type="submit" disabled=${!form.name}>Add ${visible(form.name)}</button></footer></form><//>`;
}

/** @param {any} props */
const Secret = ({ title, secret, onClose }) => html`<${Dialog} title=${title} onClose=${onClose}><div class="body">${secret ? html`<p>Its secret, shown this once:</p><p class="command"><code>${secret}</code><${Copy} text=${secret} what="secret" /></p>` : html`<p>It can log in now.</p>`}</div><footer><button class="primary" type="button" onClick=${onClose}>Done</button></footer><//>`;

/** @param {any} props */
function Roles({ query }) {
  const roles = useList('roles', {}, { every: 5_000 });
  const open = roles.items.find((row) => row.name === query.open);
  const columns = [
    { name: 'Role', card: /** @type {1} */ (1), show: (row) => html`<strong>${visible(row.name)}</strong>${row.built_in ? html` <span class="tag">built in</span>` : ''}` },
    { name: 'Users', number: true, card: /** @type {3} */ (3), show: (row) => count(row.users) }, { name: 'Includes', show: (row) => row.roles.map(visible).join(', ') || '–' },
    { name: 'Rules', card: /** @type {2} */ (2), wide: true, show: (row) => html`<span class="mono">${row.rules.slice(0, 4).map(visible).join(' · ') || '–'}${row.rules.length > 4 ? ` · ${row.rules.length - 4} more` : ''}</span>` },
    { name: 'Note', show: (row) => visible(row.note || '–') },
  ];
  return html`<${ProblemNote} problem=${roles.problem} onRetry=${roles.reload} />
    <${Table} label="Roles" max=${400} columns=${columns} rows=${roles.items} id=${(row) => row.name} chosen=${query.open ?? ''} onChoose=${(row) => refine({ open: query.open === row.name ? '' : row.name })} hasMore=${Boolean(roles.next)} onMore=${roles.more} empty=${roles.isLoading ? html`<${Loading} />` : html`<${Empty} title="No roles" />`} />
    ${open && html`<${RoleForm} key=${open.name + open.version} role=${open} onDone=${roles.reload} />`}`;
}

/** @param {any} props */
function RoleForm({ role, onDone }) {
  const [rules, setRules] = useState(role.rules.join('\n'));
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const save = async (event) => {
    event.preventDefault();
    setProblem(null);
    try {
      await call('PUT', 'roles', { body: { name: role.name, rules: rules.split('\n').map((line) => line.trim()).filter(Boolean), roles: role.roles, note: role.note, expected: role.version }, key: newKey() });
      toast(`Changed the role ${role.name}`);
      onDone();
    } catch (error) {
      setProblem(error);
    }
  };
  return html`<form class="form" style=${{ marginTop: '16px', maxWidth: '760px' }} onSubmit=${save}><h2>Rules of ${visible(role.name)}</h2>
    <${Field} label="One rule a line; the first that matches decides" lines=${Math.min(16, role.rules.length + 2)} value=${rules} onChange=${setRules} readonly=${role.built_in} /><${ProblemNote} problem=${problem} />
    ${!role.built_in && html`<div class="row"><button class="primary" type="submit" disabled=${rules === role.rules.join('\n')}>Change ${visible(role.name)}</button></div>`}</form>`;
}

function Keys() {
  const change = (verb, row, done) => confirm({ title: `${verb} key ${row.id} of ${visible(row.device)}`, text: verb === 'Revoke' ? 'Messages that it signs are refused from now on.' : 'Messages that it signs are accepted again.', verb: `${verb} key ${row.id}`, danger: verb === 'Revoke',
    run: async () => {
      await call('POST', `keys/${verb.toLowerCase()}`, { body: { id: row.id }, key: newKey() });
      toast(`Key ${row.id} is ${verb === 'Revoke' ? 'revoked' : 'enabled'}`);
      done();
    } });
  return html`<${Listing} path="keys" label="Keys of devices" id=${(row) => String(row.id)} empty=${html`<${Empty} title="No keys" command="penstock keys add DEVICE --topics 'plant/#'">Devices sign with keys, so that nobody can publish in their name.<//>`}
    columns=${(list) => [
      { name: 'Key', number: true, card: 1, show: (row) => row.id }, { name: 'Device', card: 2, show: (row) => html`<strong>${visible(row.device)}</strong>` },
      { name: 'State', card: 3, show: (row) => html`<${Mark} tone=${row.state === 'active' ? 'ok' : 'warn'}>${row.state}<//>` }, { name: 'Topics', show: (row) => html`<span class="mono">${visible(row.topics)}</span>` },
      { name: 'Created', show: (row) => html`<${Time} at=${row.created} />` }, { name: 'Expires', show: (row) => html`<${Time} at=${row.expires} />` }, { name: 'Followed by', show: (row) => row.successor ?? '–' },
      { name: 'Public key', wide: true, show: (row) => html`<span class="mono">${row.public_key}</span>` },
      { name: '', title: 'Actions', show: (row) => (row.state === 'active' ? html`<button type="button" class="link" onClick=${() => change('Revoke', row, list.reload)}>Revoke</button>` : row.state === 'revoked' ? html`<button type="button" class="link" onClick=${() => change('Enable', row, list.reload)}>Enable</button>` : '') },
    ]} />`;
}

function Tokens() {
  return html`<${Listing} path="tokens" label="API tokens" id=${(row) => row.id} empty=${html`<${Empty} title="No tokens" command="penstock tokens create OWNER" />`}
    columns=${(list) => [
      { name: 'Token', card: 1, show: (row) => html`<span class="mono">${visible(row.id)}</span>` }, { name: 'Owner', card: 2, show: (row) => visible(row.owner) }, { name: 'For', show: (row) => row.purpose },
      { name: 'Roles', show: (row) => row.roles.map(visible).join(', ') || 'all of the owner' }, { name: 'Created', show: (row) => html`<${Time} at=${row.created} />` },
      { name: 'Expires', card: 3, show: (row) => html`<span class=${row.expired ? 'warn' : ''}>${row.expired ? 'expired' : html`<${Time} at=${row.expires} />`}</span>` }, { name: 'Note', wide: true, show: (row) => visible(row.note || '–') },
      { name: '', title: 'Actions', show: (row) => html`<button type="button" class="link" onClick=${() => removeNamed('tokens', 'token', row.id, list.reload)}>Revoke</button>` },
    ]} />`;
}

function Bans() {
  const [name, setName] = useState('');
  const add = (done) => confirm({ title: `Ban ${visible(name)}`, text: 'Its connections are ended, and it cannot connect, until the ban is removed.', verb: `Ban ${visible(name)}`, danger: true,
    run: async () => {
      await call('PUT', 'bans', { body: { name }, key: newKey() });
      setName('');
      done();
    } });
  return html`<${Listing} path="bans" label="Bans" id=${(row) => row.name} empty=${html`<${Empty} title="Nobody is banned" />`}
    actions=${(list) => html`<form class="row" onSubmit=${(event) => { event.preventDefault(); add(list.reload); }}><input class="mono" aria-label="Who to ban: user:NAME, client:ID or ip:RANGE" placeholder="user:NAME, client:ID, ip:RANGE" value=${name} onInput=${(event) => setName(event.target.value.trim())} /><button type="submit" disabled=${!/^(user|client|ip):./.test(name)}>Ban</button></form>`}
    columns=${(list) => [
      { name: 'Who', card: 1, show: (row) => html`<span class="mono">${visible(row.name)}</span>` }, { name: 'Until', card: 3, show: (row) => (row.expired ? 'expired' : row.until ? html`<${Time} at=${row.until} />` : 'removed') },
      { name: 'Since', show: (row) => html`<span title=${row.created ?? ''}>${ago(row.created)}</span>` }, { name: 'Note', card: 2, wide: true, show: (row) => visible(row.note || '–') },
      { name: '', title: 'Actions', show: (row) => html`<button type="button" class="link" onClick=${() => removeNamed('bans', 'ban', row.name, list.reload)}>Lift</button>` },
    ]} />`;
}

const Refusals = () => html`<${EventList} query=${{ kind: 'refused' }} none="Nobody was refused lately." />`;

/** What a record says was changed: each row by its kind and name. Pure. @param {any} record */
export function changedBy({ changes, note }) {
  const told = changes.map(({ kind, name, topic, before, after, is_deleted: isDeleted }) => {
    const verb = isDeleted || (before && !after) ? 'deleted' : after && !before && kind !== 'group' && kind !== 'topic' ? 'added' : after ? 'changed' : '';
    return [kind, name, topic && `of ${topic}`, verb].filter(Boolean).join(' ');
  });
  return [...told.slice(0, 5), told.length > 5 && `${told.length - 5} more`, note].filter(Boolean).join(', ');
}

/** @param {any} props */
function Audit({ query }) {
  const list = useList('audit', {}, { every: 5_000 });
  const open = list.items.find((row) => String(row.offset) === query.open);
  const columns = [
    { name: 'Time', card: /** @type {3} */ (3), show: (row) => html`<${Time} at=${row.time} />` }, { name: 'What', card: /** @type {1} */ (1), show: (row) => html`${words(row.action)}${row.count > 1 ? ` × ${count(row.count)}` : ''}` },
    { name: 'Who', card: /** @type {2} */ (2), show: (row) => visible(row.user || '–') }, { name: 'From', show: (row) => html`<span class="mono">${visible(row.address || '–')}</span> <span class="muted">${visible(row.door)}</span>` },
    { name: 'Node', number: true, show: (row) => row.node }, { name: 'Changed', wide: true, show: (row) => visible(changedBy(row) || '–') },
  ];
  return html`<${ProblemNote} problem=${list.problem} onRetry=${list.reload} />
    <${Table} label="Audit" max=${480} columns=${columns} rows=${list.items} id=${(row) => String(row.offset)} chosen=${query.open ?? ''} onChoose=${(row) => refine({ open: query.open === String(row.offset) ? '' : row.offset })} hasMore=${Boolean(list.next)} onMore=${list.more} empty=${list.isLoading ? html`<${Loading} />` : html`<${Empty} title="Nothing was changed yet" />`} />
    ${open && html`<pre class="payload" tabIndex="0" aria-label="Record" style=${{ marginTop: '12px' }}>${visible(JSON.stringify(open.changes, null, 2)).replaceAll('\u240a', '\n')}</pre>`}`;
}
