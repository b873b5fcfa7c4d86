/** The search of the frame: what is typed may be a topic, `topic@offset`, a client, a group or a key. */
import { html, useEffect, useRef, useState } from '../ui.js';
import { get } from '../api.js';
import { address, go } from '../router.js';
import { visible } from '../format.js';

/** @typedef {{kind: string, name: string, url: string}} Hit */

/** Where a text certainly leads, by its form alone. Pure. @param {string} text @returns {Hit[]} */
export function certain(text) {
  const at = /^(.+)@(\d+)$/.exec(text);
  if (at) return [{ kind: 'message', name: text, url: address('topics', { topic: at[1], offset: at[2], message: at[2] }) }];
  const key = /^key[ :#]*(\d+)$/i.exec(text);
  if (key) return [{ kind: 'key', name: key[1], url: address('security', { tab: 'keys', key: key[1] }) }];
  return [];
}

/** @param {string} text @param {AbortSignal} signal @returns {Promise<Hit[]>} */
async function find(text, signal) {
  const none = { items: [] };
  const ask = (path, query) => get(path, { ...query, limit: 5 }, signal).catch(() => none);
  const [clients, topics, groups] = await Promise.all([ask('clients', { prefix: text }), ask('topics', { prefix: text }), ask('groups', { group: text })]);
  return [
    ...clients.items.map((one) => ({ kind: one.away ? 'client, away' : 'client', name: one.client_id, url: address('clients', { client: one.client_id }) })),
    ...topics.items.map((one) => ({ kind: 'topic', name: one.name, url: address('topics', { topic: one.name }) })),
    ...groups.items.map((one) => ({ kind: 'group', name: `${one.group} of ${one.topic}`, url: address('groups', { topic: one.topic, group: one.group }) })),
  ];
}

export function Search() {
  const [text, setText] = useState('');
  const [hits, setHits] = useState(/** @type {Hit[]} */ ([]));
  const [at, setAt] = useState(0);
  const [isOpen, setOpen] = useState(false);
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  useEffect(() => {
    const trimmed = text.trim();
    setAt(0);
    if (!trimmed) {
      setHits([]);
      return undefined;
    }
    setHits(certain(trimmed));
    const controller = new AbortController();
    const timer = setTimeout(async () => {
      const found = [...certain(trimmed), ...(await find(trimmed, controller.signal))];
      if (!controller.signal.aborted) setHits(found);
    }, 200);
    return () => {
      controller.abort();
      clearTimeout(timer);
    };
  }, [text]);
  const open = (url) => {
    setOpen(false);
    setText('');
    field.current?.blur();
    go(url);
  };
  const onKey = (event) => {
    const trimmed = text.trim();
    if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      event.preventDefault();
      setAt(Math.max(0, Math.min(hits.length - 1, at + (event.key === 'ArrowDown' ? 1 : -1))));
    } else if (event.key === 'Enter' && trimmed) {
      event.preventDefault();
      open((certain(trimmed)[0] ?? hits[at])?.url ?? (trimmed.includes('/') ? address('topics', { topic: trimmed }) : address('why', { q: trimmed })));
    } else if (event.key === 'Escape') {
      setText('');
      field.current?.blur();
    }
  };
  const isShown = isOpen && text.trim() !== '' && hits.length > 0;
  return html`<div class="search" role="search">
    <input id="search" ref=${field} type="text" role="combobox" aria-label="Search: client, topic, topic@offset, group, key" aria-expanded=${isShown} aria-controls="hits" aria-autocomplete="list"
      aria-activedescendant=${isShown ? `hit${at}` : undefined} placeholder="Client, topic, topic@offset, group, key" value=${text} autocomplete="off" spellcheck=${false}
      onFocus=${() => setOpen(true)} onBlur=${() => setTimeout(() => setOpen(false), 150)} onInput=${(event) => { setText(event.target.value); setOpen(true); }} onKeyDown=${onKey} />
    ${!text && html`<kbd aria-hidden="true">/</kbd>`}
    <ul id="hits" role="listbox" aria-label="Found" class="hits" hidden=${!isShown}>
      ${hits.map((hit, index) => html`<li role="option" id=${`hit${index}`} aria-selected=${index === at} onMouseDown=${(event) => { event.preventDefault(); open(hit.url); }}>
        <span class="grow">${visible(hit.name)}</span><span class="muted">${hit.kind}</span></li>`)}
    </ul></div>`;
}
