/**
 * Dialogs, and the three levels of asking. C0 acts at once. C1 names the object, and its button is a verb.
 * C2 shows first what would happen, counted by the broker, and its button has the number; for what cannot be
 * undone and is large, the name has to be typed.
 */
import { createStore, html, useEffect, useRef, useState, useId, useStore } from '../ui.js';
import { count, visible } from '../format.js';
import { Icon } from './icons.js';
import { Loading, ProblemNote } from './states.js';

export const TYPE_NAME_FROM = 1_000;

/** @param {{title: string, onClose: () => void, children?: any, large?: boolean}} props */
export function Dialog({ title, onClose, children, large = false }) {
  const ref = useRef(/** @type {HTMLDialogElement | null} */ (null));
  const id = useId('dialog');
  useEffect(() => {
    const before = /** @type {HTMLElement | null} */ (document.activeElement);
    ref.current?.showModal();
    return () => { if (before?.isConnected) before.focus(); };
  }, []);
  return html`<dialog ref=${ref} class=${large ? 'large' : ''} aria-labelledby=${id} onCancel=${(event) => { event.preventDefault(); onClose(); }}>
    <header><h2 id=${id}>${title}</h2><button type="button" class="plain icon" aria-label="Close" onClick=${onClose}><${Icon} name="close" /></button></header>
    ${children}</dialog>`;
}

/**
 * @typedef {object} Question
 * @property {string} title
 * @property {any} [text]
 * @property {string} verb of the button, as in `Kick pump-7`
 * @property {boolean} [danger]
 * @property {string} [name] to be typed
 * @property {(() => Promise<{text: any, count?: number, first?: string[], verb?: string, name?: string, none?: boolean}>)} [preview] what would happen
 * @property {() => Promise<unknown>} run
 */

const asked = createStore({ question: /** @type {Question | null} */ (null) });

/** @param {Question} question */
export const confirm = (question) => asked.set({ question });

/** The place where questions appear; once in the page. */
export function Confirmations() {
  const { question } = useStore(asked);
  return question && html`<${Confirm} key=${question.title} question=${question} onClose=${() => asked.set({ question: null })} />`;
}

/** @param {{question: Question, onClose: () => void}} props */
function Confirm({ question, onClose }) {
  const [seen, setSeen] = useState(/** @type {any} */ (question.preview ? null : {}));
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const [typed, setTyped] = useState('');
  const [isBusy, setBusy] = useState(false);
  const id = useId('name');
  useEffect(() => { question.preview?.().then(setSeen, setProblem); }, []);
  const name = seen?.name ?? question.name ?? '';
  const isReady = seen && !seen.none && !isBusy && (!name || typed === name);
  const run = async (event) => {
    event.preventDefault();
    if (!isReady) return;
    setBusy(true);
    try {
      await question.run();
      onClose();
    } catch (error) {
      setProblem(error);
      setBusy(false);
    }
  };
  return html`<${Dialog} title=${question.title} onClose=${onClose}><form onSubmit=${run}>
    <div class="body">
      ${question.text && html`<p>${question.text}</p>`}
      ${!seen && !problem && html`<${Loading} />`}
      ${seen?.text && html`<p>${seen.text}</p>`}
      ${seen?.first?.length > 0 && html`<ul class="listing" tabIndex="0" aria-label="The first of them">${seen.first.map((one) => html`<li>${visible(one)}</li>`)}</ul>`}
      ${seen?.count > (seen?.first?.length ?? 0) && seen?.first?.length > 0 && html`<p class="muted">The first ${seen.first.length} of ${count(seen.count)}.</p>`}
      ${name && seen && !seen.none && html`<div class="field"><label for=${id}>To confirm, type <code>${visible(name)}</code></label>
        <input id=${id} class="mono" autocomplete="off" value=${typed} onInput=${(event) => setTyped(event.target.value)} /></div>`}
      <${ProblemNote} problem=${problem} />
    </div>
    <footer><button type="button" onClick=${onClose}>Cancel</button>
      <button type="submit" class=${question.danger ? 'danger primary' : 'primary'} disabled=${!isReady}>${seen?.verb ?? question.verb}</button></footer>
  </form><//>`;
}
