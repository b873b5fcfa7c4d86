/** What stands around every page: navigation, search, the state in words, Pause, the theme, the user. */
import { classes, html, useEffect, useRef, useState, useStore } from './ui.js';
import { call, loadSession, session } from './api.js';
import { time, visible } from './format.js';
import { PAGES, useKey } from './keys.js';
import { isStale, live, setPaused } from './live.js';
import { address, place } from './router.js';
import { choices, complain, dismiss, setKeys, setTheme, toasts } from './state.js';
import { Confirmations, Dialog } from './parts/dialog.js';
import { Check, Segments } from './parts/fields.js';
import { Icon, Mark } from './parts/icons.js';
import { Login } from './parts/login.js';
import { Search } from './parts/search.js';
import { health } from './health.js';

const LOGO = html`<svg width="22" height="22" viewBox="0 0 32 32" aria-hidden="true"><rect width="32" height="32" rx="7" fill="var(--accent)" /><path d="M8 8h9a6 6 0 0 1 0 12h-5M12 8v16M8 24h8" fill="none" stroke="var(--on-accent)" stroke-width="3" stroke-linecap="round" /></svg>`;

/** @param {{children?: any, fixed?: boolean}} props */
export function Frame({ children, fixed = false }) {
  useStore(live);
  useStore(session);
  const [isMenuOpen, setMenu] = useState(false);
  const [isHelpOpen, setHelp] = useState(false);
  const { page } = useStore(place);
  const main = useRef(/** @type {HTMLElement | null} */ (null));
  useKey('?', () => setHelp(true));
  useEffect(() => {
    setMenu(false);
    document.title = `${PAGES.find(([, name]) => name === page)?.[2] ?? 'Not found'} · Penstock`;
    main.current?.scrollTo(0, 0);
  }, [page]);
  const stale = isStale();
  return html`<div class=${classes('frame', stale && 'stale')}>
    <a class="skip" href="#main">Skip to the page</a>
    <${Top} onMenu=${() => setMenu(!isMenuOpen)} isMenuOpen=${isMenuOpen} onHelp=${() => setHelp(true)} />
    <${Nav} page=${page} isOpen=${isMenuOpen} />
    <main class=${classes('main', fixed && 'fixed')} id="main" tabIndex="-1" ref=${main}><${Banner} />${children}</main>
    <${LiveRegion} />
    <${Toasts} />
    <${Confirmations} />
    <${Login} />
    ${isHelpOpen && html`<${Help} onClose=${() => setHelp(false)} />`}
  </div>`;
}

/** @param {any} props */
function Top({ onMenu, isMenuOpen, onHelp }) {
  const { paused } = useStore(live);
  const [isOpen, setOpen] = useState(false);
  const { who } = useStore(session);
  return html`<header class="top">
    <button class="menu-button icon" type="button" aria-label="Menu" aria-expanded=${isMenuOpen} aria-controls="nav" onClick=${onMenu}><${Icon} name="menu" /></button>
    <a class="brand" href=${address('overview')} aria-label="Penstock: overview">${LOGO}<span>Penstock</span></a>
    <${Search} />
    <div class="state"><${State} /></div>
    <button type="button" class="plain" aria-label=${paused ? 'Resume' : 'Pause'} aria-pressed=${paused} onClick=${() => setPaused(!paused)} title="Pause what changes by itself (.)"><${Icon} name=${paused ? 'play' : 'pause'} /><span class="wordy">${paused ? 'Resume' : 'Pause'}</span></button>
    <button type="button" class="plain" aria-expanded=${isOpen} aria-controls="user-menu" onClick=${() => setOpen(!isOpen)} aria-label=${`${visible(who?.user || 'this machine')}: user and appearance`}><${Icon} name="user" /><span class="wordy">${visible(who?.user || 'this machine')}</span></button>
    ${isOpen && html`<${UserMenu} onClose=${() => setOpen(false)} onHelp=${onHelp} />`}
  </header>`;
}

/** The state of the broker in a few words; the sentence is their title. */
function State() {
  const { tone, text, brief } = useStore(health);
  return text && html`<span title=${visible(text)}><${Mark} tone=${tone}><span class="words">${visible(brief)}</span><//></span>`;
}

/** @param {any} props */
function UserMenu({ onClose, onHelp }) {
  const { theme, keys } = useStore(choices);
  const { who } = useStore(session);
  const ref = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    const away = (event) => {
      const isKey = event instanceof KeyboardEvent;
      if (isKey ? event.key === 'Escape' : !ref.current?.contains(/** @type {Node} */ (event.target)) && !(event.target instanceof Element && event.target.closest('[aria-controls="user-menu"]'))) onClose();
    };
    document.addEventListener('mousedown', away);
    document.addEventListener('keydown', away);
    return () => {
      document.removeEventListener('mousedown', away);
      document.removeEventListener('keydown', away);
    };
  }, []);
  const leave = async () => {
    onClose();
    try {
      await call('DELETE', 'session', { stay: true });
      session.set({ who: null });
      await loadSession();
    } catch (problem) {
      complain(problem);
    }
  };
  return html`<div class="popover" id="user-menu" ref=${ref}>
    <${Segments} label="Theme" value=${theme} onChange=${setTheme} options=${[['system', 'System'], ['light', 'Light'], ['dark', 'Dark']]} />
    <${Check} label="Single-letter keys" checked=${keys} onChange=${setKeys} />
    <button type="button" onClick=${() => { onClose(); onHelp(); }}>Keyboard help</button>
    ${who?.user && html`<button type="button" onClick=${leave}>Log out ${visible(who.user)}</button>`}
    ${!who?.user && html`<button type="button" onClick=${() => { onClose(); session.set({ login: true, loginText: '' }); }}>Log in</button>`}
  </div>`;
}

/** @param {any} props */
function Nav({ page, isOpen }) {
  const { version } = useStore(health);
  return html`<nav class=${classes('nav', isOpen && 'open')} id="nav" aria-label="Pages"><ul>
    ${PAGES.map(([, name, title]) => html`<li><a href=${address(name)} aria-current=${page === name ? 'page' : undefined}><${Icon} name=${name} />${title}</a></li>`)}
  </ul><p class="foot">${version && html`Penstock ${visible(version)}`}</p></nav>`;
}

/** Why the figures may be old. */
function Banner() {
  const { state, since, paused } = useStore(live);
  const { unreachable } = useStore(session);
  const { notReady } = useStore(health);
  if (unreachable || state === 'lost') {
    const last = unreachable ?? since;
    return html`<div class="banner"><${Mark} tone="bad">Not live${last ? ` since ${time(last)}` : ''}<//><span class="muted">The page connects again by itself.</span></div>`;
  }
  if (notReady) return html`<div class="banner"><${Mark} tone="warn">Not ready: ${visible(notReady)}<//><span class="muted">Reading goes on.</span></div>`;
  if (paused) return html`<div class="banner"><${Mark} tone="info">Paused<//><button type="button" onClick=${() => setPaused(false)}>Resume</button></div>`;
  if (state === 'polling') return html`<div class="banner"><${Mark} tone="info">Asking every 5 seconds: too many streams are open<//></div>`;
  return null;
}

/** Says what changed in words; never the figures, which would not stop. */
function LiveRegion() {
  const { state, paused } = useStore(live);
  const { text } = useStore(health);
  const { unreachable } = useStore(session);
  const said = unreachable || state === 'lost' ? 'Not live' : paused ? 'Paused' : text;
  return html`<div class="sr" role="status" aria-live="polite">${visible(said)}</div>`;
}

function Toasts() {
  const { items } = useStore(toasts);
  return html`<div class="toasts" role="status" aria-live="polite">${items.map(({ id, text, kind, action }) => html`<div class=${`toast ${kind}`} key=${id}><span class="grow">${visible(text)}</span>
    ${action && html`<button type="button" onClick=${() => { dismiss(id); action.run(); }}>${action.label}</button>`}
    <button type="button" class="plain icon" aria-label="Dismiss" onClick=${() => dismiss(id)}><${Icon} name="close" /></button></div>`)}</div>`;
}

const HELP = /** @type {[string, string][]} */ ([
  ['/', 'Search'], ['j, k', 'Next row, previous row'], ['Enter', 'Open the row'], ['Esc', 'Close'], ['.', 'Pause, or resume'],
  ['p', 'Publish (Topics)'], ['x', 'Mark the row'], ['d', 'Diff with the marked message'], ['y', 'Copy the payload'], ['?', 'This help'],
]);

/** @param {{onClose: () => void}} props */
function Help({ onClose }) {
  const { keys } = useStore(choices);
  const row = (key, text) => html`<dt><kbd>${key}</kbd></dt><dd>${text}</dd>`;
  return html`<${Dialog} title="Keyboard" onClose=${onClose}><div class="body">
    <dl class="facts">${HELP.map(([key, text]) => row(key, text))}${PAGES.map(([letter, , title]) => row(`g ${letter}`, title))}</dl>
    <${Check} label="Single-letter keys" checked=${keys} onChange=${setKeys} /></div><//>`;
}
