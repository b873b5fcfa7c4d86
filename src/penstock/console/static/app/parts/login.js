/** The login lies over the page: what was typed there stays, and what was asked goes on afterwards. */
import { html, useState, useStore } from '../ui.js';
import { loadSession, loginDone, send, session } from '../api.js';
import { visible } from '../format.js';
import { Dialog } from './dialog.js';
import { Field, Segments } from './fields.js';
import { Note } from './states.js';

export function Login() {
  const { login, loginText } = useStore(session);
  return login && html`<${LoginDialog} text=${loginText} />`;
}

/** @param {{text: string}} props */
function LoginDialog({ text }) {
  const [kind, setKind] = useState('password');
  const [user, setUser] = useState('');
  const [secret, setSecret] = useState('');
  const [refused, setRefused] = useState('');
  const [isBusy, setBusy] = useState(false);
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    setRefused('');
    try {
      const body = kind === 'password' ? { user, secret } : { secret };
      const response = await send('POST', 'session', { body, stay: true });
      const answer = await response.json().catch(() => ({}));
      if (response.ok) {
        loginDone(true);
        loadSession();
        return;
      }
      setRefused([answer.detail || answer.title, answer.advice].filter(Boolean).join(' '));
    } catch (problem) {
      setRefused(/** @type {Error} */ (problem).message);
    }
    setBusy(false);
  };
  return html`<${Dialog} title="Log in" onClose=${() => loginDone(false)}><form onSubmit=${submit}>
    <div class="body">
      ${text && html`<p class="muted">${visible(text)}</p>`}
      <${Segments} label="Log in with" value=${kind} onChange=${setKind} options=${[['password', 'User and password'], ['token', 'API token']]} />
      ${kind === 'password' && html`<${Field} label="User" value=${user} onChange=${setUser} autocomplete="username" autofocus required />`}
      <${Field} label=${kind === 'password' ? 'Password' : 'Token'} type="password" value=${secret} onChange=${setSecret} autocomplete=${kind === 'password' ? 'current-password' : 'off'} required />
      ${refused && html`<${Note} tone="bad" role="alert">${visible(refused)}<//>`}
    </div>
    <footer><button type="button" onClick=${() => loginDone(false)}>Cancel</button><button class="primary" type="submit" disabled=${isBusy}>Log in</button></footer>
  </form><//>`;
}
