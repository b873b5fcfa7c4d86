/** Cluster: who leads, who follows how closely, which node may be stopped now. */
import { html, useState } from '../ui.js';
import { call, newKey } from '../api.js';
import { bytes, count, duration, visible, words } from '../format.js';
import { capital } from '../health.js';
import { useResource } from '../live.js';
import { toast } from '../state.js';
import { Dialog, confirm } from '../parts/dialog.js';
import { Field } from '../parts/fields.js';
import { Icon, Mark } from '../parts/icons.js';
import { Command, Empty, Loading, Note, ProblemNote } from '../parts/states.js';
import { Table } from '../parts/table.js';

/** @param {string} state @returns {'ok' | 'warn' | 'bad' | 'info'} */
const toneOf = (state) => (state === 'ok' ? 'ok' : state === 'unknown' ? 'info' : state === 'silent' || state === 'differs' ? 'bad' : 'warn');

export function Cluster() {
  const { data, problem, isLoading, reload } = useResource('cluster', {}, { every: 2_000 });
  const [isAdding, setAdding] = useState(false);
  if (!data) return problem ? html`<h1>Cluster</h1><${ProblemNote} problem=${problem} onRetry=${reload} />` : isLoading && html`<${Loading} />`;
  if (data.state === 'lone') return html`<div class="page-head"><h1>Cluster</h1></div><${Lone} data=${data} />`;
  const tone = data.healthy ? 'ok' : data.leader ? 'warn' : 'bad';
  return html`<div class="verdict"><span style=${{ paddingTop: '3px' }}><${Icon} name=${tone} tone=${tone} size=${22} /></span><div class="grow"><h1>${capital(visible(data.diagnosis))}</h1>
      <p class="muted">An acknowledgement means: on the disks of ${data.acknowledged_by} of ${data.voters} nodes. Term ${count(data.term)}, entry ${count(data.commit)}; seen by node ${data.node}.</p></div>
      <button type="button" onClick=${() => setAdding(true)}>Add a node</button></div>
    <${ProblemNote} problem=${problem} onRetry=${reload} />
    <${Members} data=${data} onChange=${reload} />
    ${data.members.map((member) => html`${member.trouble && html`<${Note} tone="bad"><strong>Node ${member.node}:</strong> ${visible(member.trouble)}<//>`}${member.differs.length > 0 && html`<${Note} tone="warn"><strong>Node ${member.node}</strong> has other settings: ${member.differs.map(visible).join(', ')}. The nodes must agree on them.<//>`}${member.snapshot_trouble && html`<${Note} tone="warn"><strong>Node ${member.node}:</strong> ${visible(member.snapshot_trouble)}<//>`}`)}
    ${isAdding && html`<${AddNode} onClose=${() => setAdding(false)} onDone=${reload} />`}`;
}

/** @param {{data: any}} props */
const Lone = ({ data }) => html`<${Empty} title="One node, on its own">It keeps what it acknowledged as long as its disk lives${data.diagnosis ? `: ${visible(data.diagnosis)}` : ''}. Three nodes survive the loss of any one. To try it on this machine: <${Command} text="penstock cluster try" /><//>`;

/** @param {{data: any, onChange: () => void}} props */
function Members({ data, onChange }) {
  const columns = [
    { name: 'Node', card: /** @type {1} */ (1), show: (row) => html`<strong>${row.node}</strong> ${row.role}${row.this ? ' (this)' : ''}` },
    { name: 'State', card: /** @type {3} */ (3), show: (row) => html`<${Mark} tone=${toneOf(row.state)}>${words(row.state)}<//>` },
    { name: 'For clients', show: (row) => html`<span class="mono">${visible(row.client_addr || '–')}</span>` },
    { name: 'For peers', show: (row) => html`<span class="mono">${visible(row.peer_addr || '–')}</span>` },
    { name: 'Has entry', number: true, show: (row) => count(row.match) },
    { name: 'Behind', number: true, show: (row) => html`<span class=${row.lag ? 'warn' : ''}>${count(row.lag)}</span>` },
    { name: 'Heard', number: true, show: (row) => (row.this ? '–' : duration(row.heard_s)) },
    { name: 'May it stop?', wide: true, wrap: true, card: /** @type {2} */ (2), show: (row) => html`<${Mark} tone=${row.may_stop.safe ? 'ok' : 'warn'}>${visible(row.may_stop.text)}<//>${row.snapshot_bytes_total ? html` <span class="muted">copy: ${bytes(row.snapshot_bytes)} of ${bytes(row.snapshot_bytes_total)}</span>` : ''}` },
    { name: '', title: 'Actions', show: (row) => html`<span class="row" style=${{ flexWrap: 'nowrap' }}>${row.role === 'follower' && html`<button type="button" class="link" onClick=${() => transfer(row.node, onChange)}>Make leader</button>`}${!row.this && html`<button type="button" class="link" onClick=${() => remove(row.node, onChange)}>Remove</button>`}</span>` },
  ];
  return html`<div style=${{ marginBottom: '16px' }}><${Table} label="Nodes" columns=${columns} rows=${data.members} id=${(row) => String(row.node)} /></div>`;
}

/** @param {number} node @param {() => void} done */
const transfer = (node, done) => confirm({ title: `Make node ${node} the leader`, text: 'Publishing pauses for a moment while the leadership moves.', verb: `Move to node ${node}`,
  run: async () => {
    await call('POST', 'cluster/transfer', { body: { to: node }, key: newKey() });
    toast(`Node ${node} takes over`);
    done();
  } });

/** @param {number} node @param {() => void} done */
const remove = (node, done) => confirm({ title: `Remove node ${node} from the cluster`, verb: 'Remove', danger: true,
  preview: async () => {
    const found = await call('DELETE', 'cluster/members', { query: { node, dry_run: true } });
    return { text: found.text, name: `node ${node}`, verb: `Remove node ${node}, ${count(found.voters)} stay` };
  },
  run: async () => {
    await call('DELETE', 'cluster/members', { query: { node } });
    toast(`Node ${node} is removed`);
    done();
  } });

/** @param {{onClose: () => void, onDone: () => void}} props */
function AddNode({ onClose, onDone }) {
  const [form, set] = useState({ node: '', peer_addr: '', client_addr: '' });
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const put = (name) => (value) => set({ ...form, [name]: value });
  const add = async (event) => {
    event.preventDefault();
    try {
      await call('POST', 'cluster/members', { body: { ...form, node: Number(form.node) }, key: newKey() });
      toast(`Node ${form.node} joins: start it now`);
      onDone();
      onClose();
    } catch (error) {
      setProblem(error);
    }
  };
  return html`<${Dialog} title="Add a node" onClose=${onClose}><form onSubmit=${add}><div class="body"><p class="muted">It must be new and empty. It learns first, and votes once it has caught up.</p>
    <${Field} label="Node number" type="number" min="1" value=${form.node} onChange=${put('node')} required /><${Field} label="Address for peers (host:port)" mono value=${form.peer_addr} onChange=${put('peer_addr')} required /><${Field} label="Address for clients (host:port)" mono value=${form.client_addr} onChange=${put('client_addr')} /><${ProblemNote} problem=${problem} /></div>
    <footer><button type="button" onClick=${onClose}>Cancel</button><button class="primary" type="submit" disabled=${!form.node || !form.peer_addr}>Add node ${form.node}</button></footer></form><//>`;
}
