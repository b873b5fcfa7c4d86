/** Fields of forms: each with its label, and the broker's complaint about it. */
import { html, useEffect, useId, useRef, useState } from '../ui.js';

/**
 * @param {{label: string, value: any, onChange: (value: string) => void, type?: string, mono?: boolean, error?: string,
 *   hint?: string, placeholder?: string, lines?: number, [more: string]: any}} props
 */
export function Field({ label, value, onChange, type = 'text', mono = false, error, hint, lines, ...more }) {
  const id = useId();
  const shared = { id, value, class: mono ? 'mono' : '', 'aria-invalid': error ? 'true' : undefined, 'aria-describedby': error || hint ? `${id}h` : undefined,
    onInput: (event) => onChange(event.target.value), ...more };
  return html`<div class="field"><label for=${id}>${label}</label>
    ${lines ? html`<textarea rows=${lines} spellcheck=${false} ...${shared}></textarea>` : html`<input type=${type} autocomplete="off" spellcheck=${false} ...${shared} />`}
    ${(error || hint) && html`<span id=${`${id}h`} class=${error ? 'error' : ''}>${error || hint}</span>`}</div>`;
}

/** @param {{label: string, value: string, onChange: (value: string) => void, options: [string, string][], bare?: boolean}} props */
export function Choice({ label, value, onChange, options, bare = false }) {
  const id = useId();
  const field = html`<select id=${id} aria-label=${bare ? label : undefined} value=${value} onChange=${(event) => onChange(event.target.value)}>
    ${options.map(([key, text]) => html`<option value=${key} selected=${key === value}>${text}</option>`)}</select>`;
  return bare ? field : html`<div class="field"><label for=${id}>${label}</label>${field}</div>`;
}

/** @param {{label: string, checked: boolean, onChange: (checked: boolean) => void}} props */
export const Check = ({ label, checked, onChange }) => html`<label class="check"><input type="checkbox" checked=${checked} onChange=${(event) => onChange(event.target.checked)} />${label}</label>`;

/** A filter that waits until somebody stops typing. @param {{label: string, value: string, onChange: (value: string) => void, [more: string]: any}} props */
export function Filter({ label, value, onChange, ...more }) {
  const [text, set] = useState(value);
  const sent = useRef(value);
  useEffect(() => {
    if (value !== sent.current) {
      sent.current = value;
      set(value);
    }
  }, [value]);
  useEffect(() => {
    if (text === sent.current) return undefined;
    const timer = setTimeout(() => {
      sent.current = text;
      onChange(text);
    }, 250);
    return () => clearTimeout(timer);
  }, [text]);
  return html`<input type="search" aria-label=${label} placeholder=${label} value=${text} autocomplete="off" spellcheck=${false}
    onInput=${(event) => set(event.target.value)} ...${more} />`;
}

/** @param {{label: string, value: string, onChange: (value: string) => void, options: [string, string][]}} props */
export const Segments = ({ label, value, onChange, options }) => html`<div class="segments" role="group" aria-label=${label}>
  ${options.map(([key, text]) => html`<button type="button" aria-pressed=${key === value} onClick=${() => onChange(key)}>${text}</button>`)}</div>`;

/** @param {{label: string, value: string, onChange: (value: string) => void, tabs: [string, string][]}} props */
export function Tabs({ label, value, onChange, tabs }) {
  const onKey = (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const at = (tabs.findIndex(([key]) => key === value) + by + tabs.length) % tabs.length;
    onChange(tabs[at][0]);
    /** @type {HTMLElement} */ (event.currentTarget).querySelectorAll('button')[at].focus();
  };
  return html`<div class="tabs" role="tablist" aria-label=${label} onKeyDown=${onKey}>
    ${tabs.map(([key, text]) => html`<button type="button" role="tab" aria-selected=${key === value} tabIndex=${key === value ? 0 : -1} onClick=${() => onChange(key)}>${text}</button>`)}</div>`;
}
