// Why nothing hits on a watched server, by what its events and its numbers allow to say.

import { countUpTo, hitsSince, lastUpTo } from "./model.js";

/**
 * @typedef {import("./standing.js").Standings} Standings
 * @typedef {{name: string, facts: Record<string, number | string>}} Verdict its words are `attached.why.<name>`
 */

const SETTING = "vllm:cache_config_info.";

/**
 * Why not one token hit since the watch began; null: some did, none was asked for, or the server does not say.
 * @param {import("./model.js").Rank[]} ranks @param {Standings[]} standings @param {number} instance the rank
 * @param {number} index of the record after which
 * @param {(hash: string) => number} endOf tokens from the beginning to the end of a content, at least
 * @param {number} blockSize of the pool
 * @returns {Verdict | null}
 */
export function whyNoHits(ranks, standings, instance, index, endOf, blockSize) {
  const [rank, known] = [ranks[instance], standings[instance]];
  const since = hitsSince(rank, index);
  if (!since?.asked || since.hits > 0) return null;
  const setting = (/** @type {string} */ name) => lastUpTo(rank.readings.get(SETTING + name) ?? [], index)?.value;
  if (setting("enable_prefix_caching") === 0) return { name: "off", facts: {} };
  const stored = lastUpTo(known.stored, index)?.count ?? 0;
  if (!stored) {
    const name = countUpTo(rank.messages, index) ? "nothing" : "silent";
    return { name, facts: { asked: since.asked, size: blockSize } };
  }
  const sizes = [...known.groups.values()].map(({ size }) => size).filter(Boolean);
  const alignment = setting("cache_hit_alignment_tokens") ?? sizes.reduce(leastCommon, 1);
  return (
    ofGroups(known, index, alignment, endOf) ??
    ofPool(known, index) ??
    ofRanks(standings, instance, index) ??
    ofBeginnings(known, index, Math.min(...sizes, blockSize), alignment) ?? { name: "unsaid", facts: {} }
  );
}

/**
 * A content was named again while it stood: who computed it anew did not find it.
 * @param {Standings} known @param {number} index @param {number} alignment @param {(hash: string) => number} endOf
 * @returns {Verdict | null}
 */
function ofGroups(known, index, alignment, endOf) {
  let most = 0;
  /** @type {Map<number, number>} by the group that had it not */
  const lacking = new Map();
  let n = 0;
  for (const list of known.again.values())
    for (const one of list.slice(0, countUpTo(list, index))) {
      n += 1;
      most = Math.max(most, endOf(one.hash));
      for (const id of one.lacking) lacking.set(id, (lacking.get(id) ?? 0) + 1);
    }
  if (!n) return null;
  if (known.groups.size > 1 && most < alignment) return { name: "alignment", facts: { shared: most, size: alignment } };
  const [worst] = [...lacking].sort((a, b) => b[1] - a[1]);
  if (!worst) return { name: "same_time", facts: { n } };
  const [id, count] = worst;
  return { name: "group", facts: { n: count, of: n, group: id, kind: known.groups.get(id)?.kind ?? "?" } };
}

/** What was needed again had been removed. @param {Standings} known @param {number} index @returns {Verdict | null} */
function ofPool({ restored }, index) {
  const n = lastUpTo(restored, index)?.count ?? 0;
  return n ? { name: "evicted", facts: { n } } : null;
}

/**
 * Nothing was ever named twice: how far any two beginnings agree.
 * @param {Standings} known @param {number} index @param {number} size @param {number} alignment
 * @returns {Verdict | null}
 */
function ofBeginnings({ roots }, index, size, alignment) {
  const count = countUpTo(roots, index);
  if (!count) return null;
  if (count === 1) return { name: "one", facts: {} };
  const { shared, salts } = closest(roots, count);
  if (salts > 1) return { name: "salt", facts: { n: salts } };
  if (shared) return { name: "block_size", facts: { shared, size, alignment: Math.max(size, alignment) } };
  return { name: "different", facts: { n: count } };
}

const MOST_ROOTS = 4096; // the last ones are compared

/** @type {WeakMap<import("./standing.js").Root[], {count: number, shared: number, salts: number}>} */
const closests = new WeakMap();

/**
 * How many tokens the two that are most alike share, of those under one salt; and under how many salts one same content
 * came, at most.
 * @param {import("./standing.js").Root[]} roots @param {number} count of them, from the first on
 */
function closest(roots, count) {
  const before = closests.get(roots);
  if (before?.count === count) return before;
  const sorted = roots.slice(Math.max(0, count - MOST_ROOTS), count).sort((a, b) => compare(a.tokens, b.tokens));
  let [shared, salts, run] = [0, 1, 1];
  for (let i = 1; i < sorted.length; i++) {
    const [one, other] = [sorted[i - 1], sorted[i]];
    const same = common(one.tokens, other.tokens);
    run = same === one.tokens.length && same === other.tokens.length ? run + 1 : 1;
    salts = Math.max(salts, run);
    if (one.salt === other.salt) shared = Math.max(shared, same);
  }
  const found = { count, shared, salts };
  closests.set(roots, found);
  return found;
}

/**
 * The same beginnings went to other ranks.
 * @param {Standings[]} standings @param {number} instance @param {number} index @returns {Verdict | null}
 */
function ofRanks(standings, instance, index) {
  const { roots } = standings[instance];
  const others = standings.filter((_, rank) => rank !== instance);
  const n = roots
    .slice(0, countUpTo(roots, index))
    .filter(({ hash }) => others.some(({ byHash }) => Number(byHash.get(hash)?.[0].from) <= index)).length;
  return n ? { name: "ranks", facts: { n } } : null;
}

/** @param {number[]} a @param {number[]} b */
function common(a, b) {
  let n = 0;
  while (n < a.length && n < b.length && a[n] === b[n]) n += 1;
  return n;
}

/** @param {number[]} a @param {number[]} b */
function compare(a, b) {
  const n = common(a, b);
  return n < a.length && n < b.length ? a[n] - b[n] : a.length - b.length;
}

/** @param {number} a @param {number} b */
function leastCommon(a, b) {
  let [x, y] = [a, b];
  while (y) [x, y] = [y, x % y];
  return (a * b) / x;
}
