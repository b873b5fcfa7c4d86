/** Sparklines: a curve beside its figure, drawn as SVG, with a sentence for those who do not see it. */
import { html, useMemo } from '../ui.js';

/**
 * The path of a series in a box of 100 × 28. Gaps (null) break the line. Pure.
 * @param {(number | null)[]} values @param {number} [top] of the scale
 */
export function sparkPath(values, top = 0) {
  const highest = Math.max(top, ...values.map((value) => value ?? 0)) || 1;
  const step = values.length > 1 ? 100 / (values.length - 1) : 0;
  let line = '';
  let pen = 'M';
  values.forEach((value, index) => {
    if (value === null) {
      pen = 'M';
      return;
    }
    line += `${pen}${(index * step).toFixed(1)} ${(27 - (value / highest) * 25).toFixed(1)}`;
    pen = 'L';
  });
  return line;
}

/** At most `most` points, each the greatest of its bucket: a peak of a second stays visible. @param {(number | null)[]} values @param {number} [most] */
export function thin(values, most = 120) {
  if (values.length <= most) return values;
  const width = values.length / most;
  return Array.from({ length: most }, (_, index) => {
    const part = values.slice(Math.floor(index * width), Math.floor((index + 1) * width)).filter((value) => value !== null);
    return part.length ? Math.max(.../** @type {number[]} */ (part)) : null;
  });
}

/** @param {{values: (number | null)[], label: string}} props */
export function Spark({ values, label }) {
  const line = useMemo(() => sparkPath(thin(values)), [values]);
  if (!line) return html`<svg class="spark" aria-hidden="true"></svg>`;
  const area = line.includes('M', 1) ? '' : `${line}L100 28L0 28Z`;
  return html`<svg class="spark" viewBox="0 0 100 28" preserveAspectRatio="none" role="img" aria-label=${label}>
    ${area && html`<path class="area" d=${area} />`}<path class="line" d=${line} /></svg>`;
}
