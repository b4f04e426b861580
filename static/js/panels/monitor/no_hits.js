// Diagnosis of a monitored server without prefix cache hits, from its events and metrics.

import { memo } from "../../core/folds.js";

/** @import {PrefixRoot, RankReport} from "../../core/observed_cache.js" */

/** @typedef {{name: string, facts: Record<string, number | string>}} Verdict its text is `monitor.why.<name>` */

const SETTING = "vllm:cache_config_info.";

/**
 * Explain why no token has hit since monitoring began. Returns null if some did, if no prefix was queried, or if the
 * server does not report it.
 * @param {RankReport} report report of the rank
 * @param {number} blockSize of the pool
 * @param {() => PrefixRoot[] | Promise<PrefixRoot[]>} roots beginnings of its sequences; called only if nothing else
 *   explains the misses
 * @returns {Verdict | null | Promise<Verdict | null>}
 */
export function whyNoHits(report, blockSize, roots) {
  const { hits, stored, messages, groups } = report;
  if (!hits?.asked || hits.hits > 0) return null;
  const setting = (/** @type {string} */ name) => report.readings[SETTING + name]?.at(-1)?.[1];
  if (setting("enable_prefix_caching") === 0) return { name: "off", facts: {} };
  if (!stored) return { name: messages ? "nothing" : "silent", facts: { asked: hits.asked, size: blockSize } };
  const sizes = groups.map(({ size }) => size).filter(Boolean);
  const alignment = setting("cache_hit_alignment_tokens") ?? sizes.reduce(leastCommonMultiple, 1);
  const found =
    diagnoseGroups(report, alignment) ?? diagnosePool(report) ?? diagnoseRanks(report) ?? diagnoseOneRoot(report);
  if (found) return found;
  const conclude = (/** @type {PrefixRoot[]} */ some) =>
    diagnoseRoots(some, report.roots, Math.min(...sizes, blockSize), alignment);
  const some = roots();
  return some instanceof Promise ? some.then(conclude) : conclude(some);
}

/**
 * A content was stored again while its block was cached, so the request that recomputed the content did not find it.
 * @param {RankReport} report @param {number} alignment @returns {Verdict | null}
 */
function diagnoseGroups({ again: { n, most, lacking }, groups }, alignment) {
  if (!n) return null;
  if (groups.length > 1 && most < alignment) return { name: "alignment", facts: { shared: most, size: alignment } };
  const [worst] = [...lacking].sort((a, b) => b.count - a.count);
  if (!worst) return { name: "same_time", facts: { n } };
  const kind = groups.find(({ id }) => id === worst.group)?.kind ?? "?";
  return { name: "group", facts: { n: worst.count, of: n, group: worst.group, kind } };
}

/** The needed contents had been evicted. @param {RankReport} report @returns {Verdict | null} */
const diagnosePool = ({ restored: n }) => (n ? { name: "evicted", facts: { n } } : null);

/** Requests with the same beginning were routed to other ranks. @param {RankReport} report @returns {Verdict | null} */
const diagnoseRanks = ({ elsewhere: n }) => (n ? { name: "ranks", facts: { n } } : null);

/**
 * No content was stored twice, and there is at most one beginning.
 * @param {RankReport} report
 * @returns {Verdict | null}
 */
const diagnoseOneRoot = ({ roots }) =>
  roots > 1 ? null : roots ? { name: "one", facts: {} } : { name: "unsaid", facts: {} };

/**
 * No content was stored twice: compare how far any two beginnings agree.
 * @param {PrefixRoot[]} some the most recent beginnings
 * @param {number} n number of all beginnings
 * @param {number} size @param {number} alignment
 * @returns {Verdict}
 */
function diagnoseRoots(some, n, size, alignment) {
  const { shared, salts } = closest(some);
  if (salts > 1) return { name: "salt", facts: { n: salts } };
  if (shared) return { name: "block_size", facts: { shared, size, alignment: Math.max(size, alignment) } };
  return { name: "different", facts: { n } };
}

/**
 * Return the longest common prefix in tokens of any two beginnings under one salt, and the largest number of salts
 * under which one identical content occurs.
 */
const closest = memo((/** @type {PrefixRoot[]} */ roots) => {
  const sorted = [...roots].sort((a, b) => compare(a.tokens, b.tokens));
  let [shared, salts, run] = [0, 1, 1];
  for (let i = 1; i < sorted.length; i++) {
    const [one, other] = [sorted[i - 1], sorted[i]];
    const numShared = common(one.tokens, other.tokens);
    run = numShared === one.tokens.length && numShared === other.tokens.length ? run + 1 : 1;
    salts = Math.max(salts, run);
    if (one.salt === other.salt) shared = Math.max(shared, numShared);
  }
  return { shared, salts };
});

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
function leastCommonMultiple(a, b) {
  let [x, y] = [a, b];
  while (y) [x, y] = [y, x % y];
  return (a * b) / x;
}
