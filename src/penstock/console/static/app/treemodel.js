/** The tree of topics as rows: what is loaded and open, in order. Pure. */

/** @typedef {{name: string, label: string, is_topic: boolean, children: number, children_capped: boolean, next_offset: number, messages: number, bytes: number, last: any}} Node */
/** @typedef {{items: Node[], next: string | null, isLoading: boolean}} Level */
/** @typedef {{kind: 'node' | 'more', prefix: string, depth: number, place: number, size: number, node: Node | null, isOpen: boolean}} Row */

/** The prefix of what is below a name. @param {string} name */
export const below = (name) => `${name}/`;

/**
 * The rows of the open part of the tree, from the top.
 * @param {Map<string, Level>} levels by prefix
 * @param {Set<string>} open names that are open
 * @param {string} [root] prefix where it begins
 * @returns {Row[]}
 */
export function rowsOf(levels, open, root = '') {
  /** @type {Row[]} */
  const rows = [];
  add(rows, levels, open, root, 0);
  return rows;
}

/** @param {Row[]} rows @param {Map<string, Level>} levels @param {Set<string>} open @param {string} prefix @param {number} depth */
function add(rows, levels, open, prefix, depth) {
  const level = levels.get(prefix);
  if (!level) return;
  const size = level.next ? -1 : level.items.length;
  level.items.forEach((node, index) => {
    const isOpen = hasChildren(node) && open.has(node.name);
    rows.push({ kind: 'node', prefix, depth, place: index + 1, size, node, isOpen });
    if (isOpen) add(rows, levels, open, below(node.name), depth + 1);
  });
  if (level.next || level.isLoading) rows.push({ kind: 'more', prefix, depth, place: level.items.length + 1, size, node: null, isOpen: false });
}

/** @param {Node} node */
export const hasChildren = (node) => node.children > 0 || node.children_capped;

/** Which names have to be open so that a topic is seen: `a/b/c` → `a`, `a/b`. @param {string} topic */
export function ancestors(topic) {
  const parts = topic.split('/');
  return parts.slice(1).map((_, index) => parts.slice(0, index + 1).join('/'));
}

/**
 * What an arrow key does at a row: another row to go to, or a name to open or close.
 * @param {Row[]} rows @param {number} at @param {string} key
 * @returns {{to?: number, open?: string, close?: string}}
 */
export function move(rows, at, key) {
  const row = rows[at];
  const last = rows.length - 1;
  if (key === 'ArrowDown') return { to: Math.min(last, at + 1) };
  if (key === 'ArrowUp') return { to: Math.max(0, at - 1) };
  if (key === 'Home') return { to: 0 };
  if (key === 'End') return { to: last };
  if (key === 'PageDown') return { to: Math.min(last, at + 20) };
  if (key === 'PageUp') return { to: Math.max(0, at - 20) };
  if (!row?.node) return {};
  if (key === 'ArrowRight' && hasChildren(row.node)) return row.isOpen ? { to: Math.min(last, at + 1) } : { open: row.node.name };
  if (key === 'ArrowLeft') {
    if (row.isOpen) return { close: row.node.name };
    for (let above = at - 1; above >= 0; above -= 1) if (rows[above].depth < row.depth) return { to: above };
  }
  return {};
}

/**
 * How fast a topic grows, from two of its next offsets.
 * @param {{offset: number, at: number, rate: number} | undefined} before @param {number} offset @param {number} at in ms
 */
export function growth(before, offset, at) {
  if (!before || at <= before.at) return { offset, at, rate: 0 };
  const now = ((offset - before.offset) / (at - before.at)) * 1000;
  return { offset, at, rate: before.rate ? before.rate * 0.7 + now * 0.3 : now };
}
