/** How the broker is, for the frame of every page; the overview shows the rest of the same answer. */
import { createStore, useEffect, useStore } from './ui.js';
import { get } from './api.js';
import { useEvery } from './live.js';
import { place } from './router.js';

export const health = createStore({
  /** @type {'ok' | 'warn' | 'bad' | 'info'} */ tone: 'info',
  text: '', brief: '', version: '', notReady: '',
  /** @type {any} */ overview: null,
  /** @type {any} */ problem: null,
});

const TONES = /** @type {Record<string, 'ok' | 'warn' | 'bad'>} */ ({ healthy: 'ok', degraded: 'warn', unavailable: 'bad' });

/** @param {any} overview */
export function summary(overview) {
  const { health: how, version } = overview;
  return {
    tone: TONES[how.state] ?? 'info', version, notReady: how.ready ? '' : how.reason ?? 'no reason given',
    text: `${capital(how.text)}. Ack = ${how.acknowledgement}`, brief: brief(how),
  };
}

/** The state in a few words, which fit beside the search. Pure. @param {any} how */
export function brief({ state, acknowledgement }) {
  const [, disks] = /^on the disks of (\d+ of \d+) nodes$/.exec(acknowledgement) ?? [];
  const ack = disks ? `on disk of ${disks}` : acknowledgement === 'on the disk of this node' ? 'on disk here' : acknowledgement.split(';')[0];
  return `${capital(state)} · ack = ${ack}`;
}

/** @param {string} text */
export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

export async function loadHealth() {
  try {
    const overview = await get('overview');
    health.set({ overview, problem: null, ...summary(overview) });
  } catch (problem) {
    health.set({ problem, ...(/** @type {any} */ (problem).status === 403 ? { text: '', brief: '' } : {}) });
  }
}

export function useHealth() {
  const { page } = useStore(place);
  useEffect(() => { loadHealth(); }, []);
  useEvery(loadHealth, page === 'overview' ? 5_000 : 15_000);
}
