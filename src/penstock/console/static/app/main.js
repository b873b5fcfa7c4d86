/** Starts the console: the frame, and the page that the address names. */
import { html, render, useEffect, useStore } from './ui.js';
import { loadSession } from './api.js';
import { useHealth } from './health.js';
import { startKeys } from './keys.js';
import { startLive } from './live.js';
import { address, place, startRouter } from './router.js';
import { applyTheme } from './state.js';
import { Frame } from './frame.js';
import { Empty } from './parts/states.js';
import { Clients } from './pages/clients.js';
import { Cluster } from './pages/cluster.js';
import { Groups } from './pages/groups.js';
import { LiveTail } from './pages/live.js';
import { Overview } from './pages/overview.js';
import { Schedules } from './pages/schedules.js';
import { Security } from './pages/security.js';
import { Settings } from './pages/settings.js';
import { Spark } from './pages/spark.js';
import { Topics } from './pages/topics.js';
import { Why } from './pages/why.js';

const VIEWS = /** @type {Record<string, any>} */ ({
  overview: Overview, topics: Topics, clients: Clients, groups: Groups, spark: Spark,
  cluster: Cluster, schedules: Schedules, security: Security, settings: Settings, live: LiveTail, why: Why,
});
const FIXED = new Set(['topics', 'clients', 'groups', 'live', 'spark', 'schedules']);

function App() {
  const { page, query } = useStore(place);
  const View = Object.hasOwn(VIEWS, page) ? VIEWS[page] : Nowhere;
  useHealth();
  useEffect(() => { loadSession().catch(() => undefined); }, []);
  return html`<${Frame} fixed=${FIXED.has(page)}><${View} key=${page} query=${query} /><//>`;
}

const Nowhere = () => html`<${Empty} title="There is no such page"><a href=${address('overview')}>To the overview</a><//>`;

applyTheme();
startRouter();
startKeys();
startLive();
const root = /** @type {HTMLElement} */ (document.getElementById('app'));
root.replaceChildren();
render(html`<${App} />`, root);
