/** What changed between two payloads: by field if both are JSON, else by line. Pure. */

/** @typedef {{path: string, was: string | null, is: string | null}} Change */

const MOST = 500;

/** @param {unknown} value */
const shown = (value) => (value === undefined ? null : JSON.stringify(value));

/** @param {unknown} value */
const isBranch = (value) => typeof value === 'object' && value !== null;

/** The changed fields of two values. @param {any} was @param {any} is @returns {Change[]} */
export function fieldChanges(was, is) {
  /** @type {Change[]} */
  const changes = [];
  const stack = [{ path: '', was, is }];
  while (stack.length && changes.length < MOST) {
    const pair = /** @type {{path: string, was: any, is: any}} */ (stack.pop());
    if (isBranch(pair.was) && isBranch(pair.is) && Array.isArray(pair.was) === Array.isArray(pair.is)) {
      const names = [...new Set([...Object.keys(pair.was), ...Object.keys(pair.is)])].reverse();
      for (const name of names) {
        stack.push({
          path: fieldPath(pair.path, name, Array.isArray(pair.was)),
          was: Object.hasOwn(pair.was, name) ? pair.was[name] : undefined,
          is: Object.hasOwn(pair.is, name) ? pair.is[name] : undefined,
        });
      }
    } else if (shown(pair.was) !== shown(pair.is)) {
      changes.push({ path: pair.path || '(payload)', was: shown(pair.was), is: shown(pair.is) });
    }
  }
  return changes;
}

/** @param {string} path @param {string} name @param {boolean} isIndex */
export function fieldPath(path, name, isIndex) {
  if (isIndex) return `${path}[${name}]`;
  return path ? `${path}.${name}` : name;
}

/** The changed lines of two texts, by their longest common lines. @param {string} was @param {string} is @returns {Change[]} */
export function lineChanges(was, is) {
  const [old, young] = [was.split('\n').slice(0, MOST), is.split('\n').slice(0, MOST)];
  const table = common(old, young);
  /** @type {Change[]} */
  const changes = [];
  let [i, j] = [0, 0];
  while (i < old.length || j < young.length) {
    if (i < old.length && j < young.length && old[i] === young[j]) [i, j] = [i + 1, j + 1];
    else if (j < young.length && (i === old.length || table[i][j + 1] >= table[i + 1][j])) changes.push({ path: `line ${(j += 1)}`, was: null, is: young[j - 1] });
    else changes.push({ path: `line ${(i += 1)}`, was: old[i - 1], is: null });
  }
  return changes;
}

/** @param {string[]} old @param {string[]} young */
function common(old, young) {
  const table = Array.from({ length: old.length + 1 }, () => new Uint16Array(young.length + 1));
  for (let i = old.length - 1; i >= 0; i -= 1) {
    for (let j = young.length - 1; j >= 0; j -= 1) {
      table[i][j] = old[i] === young[j] ? table[i + 1][j + 1] + 1 : Math.max(table[i + 1][j], table[i][j + 1]);
    }
  }
  return table;
}

/** @param {string} was @param {string} is @returns {{kind: 'fields' | 'lines', changes: Change[]}} */
export function changesOf(was, is) {
  try {
    return { kind: 'fields', changes: fieldChanges(JSON.parse(was), JSON.parse(is)) };
  } catch {
    return { kind: 'lines', changes: lineChanges(was, is) };
  }
}
