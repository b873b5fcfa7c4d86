/** Charts: uPlot, fetched with the first one. Each has a sentence and a table beside it. */
import { html, useEffect, useRef, useState, useStore } from '../ui.js';
import { digits, time } from '../format.js';
import { choices } from '../state.js';

const COLOURS = ['--accent', '--warn', '--ok', '--bad', '--muted'];
const DASHES = [[], [6, 3], [2, 3], [10, 4, 2, 4], [1, 2]];

/**
 * @param {{label: string, times: number[], lines: {name: string, values: (number | null)[]}[], height?: number,
 *   show?: (value: number) => string}} props times in seconds
 */
export function Chart({ label, times, lines, height = 240, show = digits }) {
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  const plot = useRef(/** @type {any} */ (null));
  const [failed, setFailed] = useState('');
  const { theme } = useStore(choices);
  const names = lines.map((line) => line.name).join('\n');
  useEffect(() => {
    const element = /** @type {HTMLElement} */ (place.current);
    let isGone = false;
    const watcher = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height }));
    import('../../vendor/uplot.js').then(({ default: uPlot }) => {
      if (isGone) return;
      plot.current = new uPlot(options(element, lines, height, show), [times, ...lines.map((line) => line.values)], element);
      watcher.observe(element);
    }, (error) => setFailed(String(error)));
    return () => {
      isGone = true;
      watcher.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [names, theme, height]);
  useEffect(() => plot.current?.setData([times, ...lines.map((line) => line.values)]), [times, lines]);
  return html`<figure><div class="chart" ref=${place} role="img" aria-label=${`${label}. ${sentence(lines, show)}`}></div>
    ${failed && html`<p class="bad">The chart could not be drawn.</p>`}
    <details><summary>As a table</summary><${Numbers} label=${label} times=${times} lines=${lines} show=${show} /></details></figure>`;
}

/** What a chart says, in words. Pure. @param {{name: string, values: (number | null)[]}[]} lines @param {(value: number) => string} show */
export function sentence(lines, show) {
  return lines.map(({ name, values }) => {
    const there = /** @type {number[]} */ (values.filter((value) => value !== null));
    if (!there.length) return `${name}: no values.`;
    return `${name}: from ${show(Math.min(...there))} to ${show(Math.max(...there))}, last ${show(there[there.length - 1])}.`;
  }).join(' ');
}

/** @param {any} props */
function Numbers({ label, times, lines, show }) {
  const step = Math.max(1, Math.ceil(times.length / 60));
  const rows = times.map((_, index) => index).filter((index) => index % step === 0);
  return html`<div class="table" tabIndex="0" role="region" aria-label=${label} style=${{ maxHeight: '240px' }}><table><caption class="sr">${label}</caption>
    <thead><tr><th scope="col">Time</th>${lines.map((line) => html`<th scope="col" class="number">${line.name}</th>`)}</tr></thead>
    <tbody>${rows.map((index) => html`<tr><td>${time(times[index] * 1000)}</td>${lines.map((line) => html`<td class="number">${line.values[index] === null ? '–' : show(line.values[index])}</td>`)}</tr>`)}</tbody></table></div>`;
}

/**
 * The labels of an axis of time: the clock of the reader, and the date where it begins or changes. Pure.
 * @param {number[]} splits in seconds @param {number} step between them
 */
export function clockTicks(splits, step) {
  const two = (number) => String(number).padStart(2, '0');
  let before = '';
  return splits.map((at) => {
    const date = new Date(at * 1000);
    const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
    const clock = `${two(date.getHours())}:${two(date.getMinutes())}${step < 60 ? `:${two(date.getSeconds())}` : ''}`;
    const label = day === before ? clock : step >= 86_400 ? day : `${clock}\n${day}`;
    before = day;
    return label;
  });
}

/** @param {HTMLElement} element @param {any[]} lines @param {number} height @param {(value: number) => string} show */
function options(element, lines, height, show) {
  const style = getComputedStyle(element);
  const colour = (name) => style.getPropertyValue(name).trim();
  const axis = { stroke: colour('--muted'), grid: { stroke: colour('--line'), width: 1 }, ticks: { stroke: colour('--line'), width: 1 }, font: '12px system-ui' };
  return {
    width: element.clientWidth, height, legend: { live: true }, cursor: { drag: { x: true, y: false } },
    axes: [{ ...axis, space: 72, values: (_, splits, __, ___, step) => clockTicks(splits, step) }, { ...axis, size: 64, values: (_, ticks) => ticks.map(show) }],
    series: [{ label: 'Time', value: (_, at) => (at == null ? '–' : time(at * 1000)) },
      ...lines.map((line, index) => ({ label: line.name, stroke: colour(COLOURS[index % COLOURS.length]), width: 1.5, dash: DASHES[index % DASHES.length], spanGaps: true,
        value: (_, value) => (value == null ? '–' : show(value)) }))],
  };
}
