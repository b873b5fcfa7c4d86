/** The form that publishes a message: first tried without publishing, if somebody asks. */
import { html, useMemo, useState } from '../ui.js';
import { call, newKey } from '../api.js';
import { fromHex, toBase64 } from '../decode.js';
import { count, visible } from '../format.js';
import { toast } from '../state.js';
import { Dialog } from './dialog.js';
import { Check, Choice, Field, Segments } from './fields.js';
import { Icon } from './icons.js';
import { Copy, Note, ProblemNote } from './states.js';

const FILE_BYTES_MAX = 512 * 1024;

/** @param {string} text */
const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** The same as a command and as a program. @param {any} form */
export function snippets(form) {
  const options = [form.qos !== '0' ? `-q ${form.qos}` : '', form.retain ? '--retain' : ''].filter(Boolean).join(' ');
  return {
    command: `penstock pub ${options ? `${options} ` : ''}${quoted(form.topic)} ${quoted(form.text)}`,
    python: `from penstock.client import Publisher\n\nwith Publisher() as publisher:\n    publisher.publish(${JSON.stringify(form.topic)}, ${JSON.stringify(form.text)}.encode())`,
    curl: `curl -X POST -H 'content-type: application/json' localhost:1883/api/v1/messages \\\n  -d ${quoted(JSON.stringify({ topic: form.topic, text: form.text, qos: Number(form.qos), retain: form.retain }))}`,
  };
}

/** @param {{start: {topic?: string, text?: string, base64?: string, kind?: string}, onClose: () => void, onDone?: () => void}} props */
export function Publish({ start, onClose, onDone }) {
  const [form, set] = useState({ topic: '', text: '', qos: '1', retain: false, headers: '', content_type: '', priority: '0', delay_s: '', expires_s: '', ...start });
  const [kind, setKind] = useState(start.kind ?? 'text');
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const [result, setResult] = useState(/** @type {any} */ (null));
  const [isBusy, setBusy] = useState(false);
  const [key, setKey] = useState(newKey);
  const change = (name) => (value) => {
    set({ ...form, [name]: value });
    setKey(newKey());
    setResult(null);
  };
  const faultOf = (name) => problem?.fields.find((field) => field.name === name)?.detail;
  const submit = async (isTrial) => {
    setBusy(true);
    setProblem(null);
    try {
      const done = await call('POST', 'messages', { body: { ...body(form, kind), dry_run: isTrial }, key: isTrial ? undefined : key });
      if (isTrial) setResult(done);
      else {
        toast(`Published to ${done.topic}${done.offset == null ? '' : ` at offset ${done.offset}`}`);
        onDone?.();
        onClose();
      }
    } catch (error) {
      setProblem(error);
    }
    setBusy(false);
  };
  const onFile = async (event) => {
    const file = event.target.files[0];
    if (!file) return;
    if (file.size > FILE_BYTES_MAX) setProblem({ status: 413, message: `The file is larger than ${count(FILE_BYTES_MAX)} bytes.`, advice: 'penstock pub --file takes any size.', fields: [] });
    else change('base64')(toBase64(new Uint8Array(await file.arrayBuffer())));
  };
  const example = useMemo(() => snippets(form), [form]);
  return html`<${Dialog} title="Publish" onClose=${onClose} large><form onSubmit=${(event) => { event.preventDefault(); submit(false); }}>
    <div class="body">
      <${Field} label="Topic" mono value=${form.topic} onChange=${change('topic')} error=${faultOf('topic')} required autofocus=${!form.topic} />
      <div class="row"><${Segments} label="Payload as" value=${kind} onChange=${setKind} options=${[['text', 'Text'], ['json', 'JSON'], ['hex', 'Hex'], ['file', 'File']]} /></div>
      ${kind === 'file' ? html`<div class="field"><label for="pub-file">File</label><input id="pub-file" type="file" onChange=${onFile} /></div>`
        : html`<${Field} label="Payload" lines=${6} value=${form.text} onChange=${change('text')} error=${faultInPayload(form.text, kind)} />`}
      <div class="pair">
        <${Choice} label="QoS" value=${form.qos} onChange=${change('qos')} options=${[['0', '0: at most once'], ['1', '1: at least once'], ['2', '2: exactly once']]} />
        <${Choice} label="Priority" value=${form.priority} onChange=${change('priority')} options=${[0, 1, 2, 3, 4, 5, 6, 7].map((one) => [String(one), String(one)])} />
        <${Field} label="Delay in s" type="number" min="0" step="any" value=${form.delay_s} onChange=${change('delay_s')} />
        <${Field} label="Expires after s" type="number" min="0" step="any" value=${form.expires_s} onChange=${change('expires_s')} />
      </div>
      <${Check} label="Retain: new subscribers get it first" checked=${form.retain} onChange=${change('retain')} />
      <details><summary>Headers, content type</summary><div class="form">
        <${Field} label="Headers, a line each: name: value" lines=${3} value=${form.headers} onChange=${change('headers')} />
        <${Field} label="Content type" mono value=${form.content_type} onChange=${change('content_type')} /></div></details>
      <details><summary>The same by command line, Python, HTTP</summary><div class="form">${Object.values(example).map((text) => html`<div class="row"><pre class="payload grow" tabIndex="0" aria-label="Snippet">${visible(text).replaceAll('\u240a', '\n')}</pre><${Copy} text=${text} what="snippet" /></div>`)}</div></details>
      ${result && html`<${Trial} result=${result} />`}
      <${ProblemNote} problem=${problem} />
    </div>
    <footer><button type="button" onClick=${() => submit(true)} disabled=${isBusy || !form.topic}>Try without publishing</button>
      <button class="primary" type="submit" disabled=${isBusy || !form.topic || Boolean(faultInPayload(form.text, kind))}>Publish</button></footer>
  </form><//>`;
}

/** @param {string} text @param {string} kind */
function faultInPayload(text, kind) {
  if (kind === 'hex' && fromHex(text) === null) return 'Two hexadecimal digits for each byte';
  if (kind !== 'json' || !text) return '';
  try {
    JSON.parse(text);
    return '';
  } catch (error) {
    return `No JSON: ${/** @type {Error} */ (error).message}`;
  }
}

/** @param {any} form @param {string} kind */
function body(form, kind) {
  const headers = form.headers.split('\n').filter((line) => line.includes(':')).map((line) => [line.slice(0, line.indexOf(':')).trim(), line.slice(line.indexOf(':') + 1).trim()]);
  const payload = kind === 'file' ? { base64: form.base64 ?? '' } : kind === 'hex' ? { base64: toBase64(fromHex(form.text) ?? new Uint8Array()) } : { text: form.text };
  return { topic: form.topic, ...payload, qos: Number(form.qos), retain: form.retain, headers, content_type: form.content_type, priority: Number(form.priority), delay_s: Number(form.delay_s || 0), expires_s: Number(form.expires_s || 0) };
}

/** @param {{result: any}} props */
function Trial({ result }) {
  const { receivers } = result;
  const who = receivers && [
    receivers.sessions ? `${count(receivers.sessions)} sessions${receivers.away ? ` (${count(receivers.away)} away)` : ''}` : '',
    receivers.live ? `${count(receivers.live)} live subscribers` : '', receivers.groups.length ? `groups ${receivers.groups.join(', ')}` : '',
  ].filter(Boolean).join(', ');
  return html`<${Note} tone=${result.accepted ? 'ok' : 'bad'} role="status"><strong>${result.accepted ? 'It would be accepted.' : 'It would be refused.'}</strong> ${receivers && html`Receivers: ${visible(who) || 'nobody'}.`}
    <ul>${result.checks.map((check) => html`<li class="row"><${Icon} name=${check.ok ? 'ok' : 'bad'} tone=${check.ok ? 'ok' : 'bad'} /><span>${visible(check.check)}: ${visible(check.text)}</span></li>`)}</ul><//>`;
}
