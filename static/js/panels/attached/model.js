// What a log of a watched server says, in figures: a fold over its records that goes on where it stopped.

/**
 * @typedef {import("../../core/trace.js").StepRecord} StepRecord
 * @typedef {import("../../core/trace.js").KnownSince} KnownSince
 * @typedef {{index: number, at: number, epoch: number, sequence: number, reason: KnownSince["reason"],
 *   missed: number}} Since
 * @typedef {{index: number, at: number, value: number}} Reading one number at one look at the metrics
 * @typedef {object} Rank
 * @property {Since[]} since where its knowledge began, and began anew
 * @property {{index: number, sequence: number}[]} messages ascending by record
 * @property {{index: number, replayed: number, unmatched: number, unread: number}[]} sums after each message
 * @property {Map<string, Reading[]>} readings by the server's name
 * @property {{index: number, at: number, problem: string}[]} problems
 */

/** @returns {Rank} */
const empty = () => ({ since: [], messages: [], sums: [], readings: new Map(), problems: [] });

/** @type {WeakMap<object, {length: number, ranks: Rank[]}>} */
const known = new WeakMap();

/** Each rank of a log as far as it is here. @param {import("../../core/log.js").TraceLog} log */
export function ranksOf(log) {
  let found = known.get(log);
  if (!found) {
    const count = Math.max(1, log.header.instances?.length ?? 0);
    known.set(log, (found = { length: 0, ranks: Array.from({ length: count }, empty) }));
  }
  for (; found.length < log.records.length; found.length++) {
    const record = log.records[found.length];
    read(found.ranks[record.instance ?? 0], record);
  }
  return found.ranks;
}

/** @param {Rank} rank @param {StepRecord} record */
function read(rank, { index, ops = [], seen, timing: { at } }) {
  for (const op of ops)
    if (op.type === "known_since")
      rank.since.push({
        index,
        at,
        epoch: op.epoch,
        sequence: op.sequence,
        reason: op.reason,
        missed: op.num_missed ?? 0,
      });
  if (!seen) return;
  if (seen.problem) rank.problems.push({ index, at, problem: seen.problem });
  if (seen.sequence !== null && seen.sequence !== undefined) {
    const last = rank.sums.at(-1) ?? { replayed: 0, unmatched: 0, unread: 0 };
    rank.messages.push({ index, sequence: seen.sequence });
    rank.sums.push({
      index,
      replayed: last.replayed + Number(seen.replayed ?? false),
      unmatched: last.unmatched + (seen.num_unmatched ?? 0),
      unread: last.unread + (seen.num_unread ?? 0),
    });
  }
  for (const [name, value] of Object.entries(seen.metrics ?? {})) {
    let list = rank.readings.get(name);
    if (!list) rank.readings.set(name, (list = []));
    list.push({ index, at, value });
  }
}

/**
 * How many of a list that ascends by record are up to record `index`.
 * @param {{index: number}[]} list @param {number} index
 */
export function countUpTo(list, index) {
  let [low, high] = [0, list.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle].index <= index) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * The last of a list up to record `index`; undefined: none.
 * @template {{index: number}} T
 * @param {T[]} list @param {number} index
 */
export const lastUpTo = (list, index) => /** @type {T | undefined} */ (list[countUpTo(list, index) - 1]);

/**
 * Tokens that hit over tokens that were asked for since the watch began, by two counters of the server; null: it has
 * not said, or nothing was asked.
 * @param {Rank} rank @param {number} index
 */
export function hitRate(rank, index) {
  const [hits, asked] = ["vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total"].map((name) => {
    const list = rank.readings.get(name) ?? [];
    const last = lastUpTo(list, index);
    return last && last.value - list[0].value;
  });
  return asked ? (hits ?? 0) / asked : null;
}

/**
 * Beginnings that most contents follow, the largest first: of each root of the prefix tree how many contents it has
 * below it, itself among them.
 * @param {import("../../core/prefix_tree.js").Tree} tree @param {number} most
 */
export function largestBeginnings(tree, most) {
  const sizes = tree.roots.map((root) => {
    let [count, longest] = [0, 0];
    const open = [{ node: root, depth: 1 }];
    for (let next = open.pop(); next; next = open.pop()) {
      if (next.node.blocks.length) {
        count += 1;
        longest = Math.max(longest, next.depth);
      }
      for (const child of next.node.children) open.push({ node: child, depth: next.depth + 1 });
    }
    return { root, count, longest };
  });
  return sizes
    .filter(({ count }) => count)
    .sort((a, b) => b.count - a.count)
    .slice(0, most);
}
