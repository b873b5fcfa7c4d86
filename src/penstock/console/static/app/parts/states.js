/** What a page says when there is nothing, when something is missing, and when something went wrong. */
import { html, useState } from '../ui.js';
import { askForLogin, session } from '../api.js';
import { pieces, sentence, time, visible, words } from '../format.js';
import { Icon } from './icons.js';

/** What the broker advises: a sentence, with names as code. @param {{text: string}} props */
export const Advice = ({ text }) => pieces(sentence(text)).map((piece) => (piece.isCode ? html`<code>${visible(piece.text)}</code>` : visible(piece.text)));

/** A command to type, with a button that copies it where the browser lets us. @param {{text: string}} props */
export function Command({ text }) {
  return html`<span class="command"><code>${text}</code><${Copy} text=${text} what="command" /></span>`;
}

/** @param {{text: string, what?: string, label?: string}} props */
export function Copy({ text, what = 'text', label = '' }) {
  const [done, set] = useState(false);
  const copy = async () => {
    await copyText(text);
    set(true);
    setTimeout(() => set(false), 1_500);
  };
  return html`<button type="button" class=${label ? '' : 'plain icon'} onClick=${copy} aria-label=${label ? undefined : `Copy the ${what}`}>
    <${Icon} name=${done ? 'ok' : 'copy'} />${label && (done ? 'Copied' : label)}</button>`;
}

/** Plain HTTP has no clipboard: then a field that is selected does it. @param {string} text */
export async function copyText(text) {
  if (navigator.clipboard) {
    try {
      await navigator.clipboard.writeText(text);
      return;
    } catch {
      // not allowed: the other way
    }
  }
  const field = document.createElement('textarea');
  field.value = text;
  field.className = 'sr';
  document.body.append(field);
  field.select();
  document.execCommand('copy');
  field.remove();
}

/** Why there is nothing, and the command that changes it. @param {{title: string, children?: any, command?: string}} props */
export function Empty({ title, children, command = '' }) {
  return html`<div class="empty"><strong>${title}</strong>${children && html`<p>${children}</p>`}${command && html`<${Command} text=${command} />`}</div>`;
}

/** @param {{tone?: string, children?: any, role?: string}} props */
export function Note({ tone = 'info', children, role }) {
  return html`<div class=${`note ${tone}`} role=${role}><${Icon} name=${tone} tone=${tone === 'info' ? '' : tone} /><div class="grow">${children}</div></div>`;
}

const RIGHTS = /** @type {Record<string, string>} */ ({ 403: 'Not allowed', 404: 'Not found', 429: 'Too many requests', 503: 'Not ready', 0: 'Not reached' });

/** A problem, in words, with what to do. @param {{problem: any, onRetry?: () => void}} props */
export function ProblemNote({ problem, onRetry }) {
  if (!problem) return null;
  return html`<${Note} tone=${problem.status === 403 || problem.status === 404 ? 'warn' : 'bad'} role="alert">
    <strong>${RIGHTS[problem.status] ?? 'This did not work'}.</strong> ${visible(problem.message)}
    ${problem.advice && html` <span class="muted"><${Advice} text=${problem.advice} /></span>`}
    ${problem.status === 403 && !session.get().who?.user && html` <button class="link" type="button" onClick=${() => askForLogin().then((isIn) => { if (isIn) onRetry?.(); })}>Log in</button>`}
    ${problem.reason && html` <span class="tag">${visible(problem.reason)}</span>`}
    ${onRetry && problem.status !== 403 && html` <button class="link" type="button" onClick=${onRetry}>Try again</button>`}
  <//>`;
}

/** Which nodes are missing from a list. @param {{incomplete?: {node: number, reason: string}[]}} props */
export function Partial({ incomplete }) {
  if (!incomplete?.length) return null;
  const nodes = incomplete.map(({ node, reason }) => `${node ? `node ${node}` : 'some'} (${words(reason)})`).join(', ');
  return html`<${Note} tone="warn">Without ${nodes}.<//>`;
}

/** A reason code, as a word that can be looked up. @param {{code: string | null | undefined, tone?: string}} props */
export const Reason = ({ code, tone = '' }) => (code ? html`<span class=${`tag ${tone}`} title=${visible(code)}>${visible(code)}</span>` : null);

/** @param {{at: string | number | null | undefined, ms?: boolean}} props */
export const Time = ({ at, ms = false }) => html`<time dateTime=${at ?? ''} title=${at ? String(at) : undefined}>${time(at, { ms })}</time>`;

/** @param {{onClick: () => void}} props */
export const Close = ({ onClick }) => html`<button type="button" class="plain icon" aria-label="Close" onClick=${onClick}><${Icon} name="close" /></button>`;

export const Loading = () => html`<p class="empty">Loading …</p>`;
