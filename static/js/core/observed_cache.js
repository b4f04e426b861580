// Observed cache of a monitored server up to a record, for a fully loaded log. For long logs the server answers the
// same queries (engine/trace/log_index/observed_cache.py), so callers need not distinguish them. Pure.

import { contentsOf } from "./cached_contents.js";
import { memo } from "./folds.js";
import { countUpTo, familiesAt, hitsSince, lastUpTo, ranksOf } from "./observed_ranks.js";
import { residenciesOf, residencyAt } from "./observed_residency.js";

/** @import {TraceLog} from "./log.js" */

/**
 * @typedef {import("./trace.js").KnownSince["reason"]} Reason
 * @typedef {{id: number, kind: string | null, window: number | null, size: number}} Group of layers on the GPU, as
 * reported in the whole log; `window` and `size` in tokens, `size` 0: not reported
 * @typedef {{
 *   at: number, epoch: number, sequence: number, reason: Reason, missed: number, outside: number,
 * }} Since start of a rank's observation; `outside`: contents outside the pool, which are unknown from then on
 * @typedef {{
 *   medium: string, tier: string, group: number | null, kind: string | null, window: number | null,
 *   lora: string | null, count: number,
 * }} Family contents with the same properties
 * @typedef {[at: number, value: number]} Point a metric at one scrape; `at`: seconds
 * @typedef {object} RankReport state of one rank
 * @property {Since | null} since last start
 * @property {number} gaps
 * @property {number} messages
 * @property {number | null} last sequence number of the last message
 * @property {number} replayed number of replayed messages
 * @property {number} unmatched number of removed contents that were not stored before
 * @property {number} unread number of events that could not be read
 * @property {string} problem error since the last message, or ""
 * @property {Record<string, Point[]>} readings the last two minutes, by the server's metric name
 * @property {{hits: number, asked: number} | null} hits tokens since monitoring began; null: not reported
 * @property {Family[]} families largest first
 * @property {Group[]} groups
 * @property {number} stored contents stored on the GPU
 * @property {number} restored of `stored`, contents that had been stored before
 * @property {{n: number, most: number, lacking: {group: number, count: number}[]}} again contents reported again while
 * resident; `most`: largest end in tokens; `lacking`: how many of them each group lacked
 * @property {number} roots contents that begin a sequence
 * @property {number} elsewhere roots that another rank also has
 * @typedef {{salt: string | null, tokens: number[]}} PrefixRoot start of a sequence
 * @typedef {{end: number, groups: number[], ever: number[], media: string[]}} Link a content of a prompt: its end in
 * tokens, groups that have it on the GPU, groups that ever had it there, media outside that have it
 * @typedef {{groups: Group[], chains: {salt: string | null, size: number, links: Link[]}[], unkept: number}} Chains
 * contents of a prompt that were ever reported on one rank, without a salt and for each known salt, in blocks
 * of each size; `unkept`: contents whose predecessors the server does not store because there are too many
 * @typedef {object} ObservedCache queries on an observed cache
 * @property {number} still ms for which a record must be displayed before it is queried
 * @property {(index: number) => RankReport[] | Promise<RankReport[]>} reports for each rank
 * @property {(rank: number, index: number) => PrefixRoot[] | Promise<PrefixRoot[]>} roots the latest MAX_ROOTS
 * @property {(tokens: number[], index: number) => Chains[] | Promise<Chains[]>} chains of each rank
 */

const POINTS = 120;
const MAX_ROOTS = 4096;

/** Return the queries on a loaded log. @type {(log: TraceLog) => ObservedCache} */
export const observedCacheOf = memo((log) => {
  /** @type {{rank: number, count: number, some: PrefixRoot[]} | null} cached result for repeated queries */
  let last = null;
  return {
    still: 0,
    reports: (index) => ranksOf(log).map((_, rank) => reportOf(log, rank, index)),
    roots: (rank, index) => {
      const { roots } = residenciesOf(log)[rank];
      const count = countUpTo(roots, index);
      if (last?.rank !== rank || last.count !== count)
        last = { rank, count, some: roots.slice(Math.max(0, count - MAX_ROOTS), count) };
      return last.some;
    },
    chains: (tokens, index) => residenciesOf(log).map((_, rank) => chainsOn(log, rank, tokens, index)),
  };
});

/** @param {TraceLog} log @param {number} which @param {number} index @returns {RankReport} */
function reportOf(log, which, index) {
  const [rank, residencies] = [ranksOf(log)[which], residenciesOf(log)[which]];
  const breaks = rank.since.slice(0, countUpTo(rank.since, index));
  const sums = lastUpTo(rank.sums, index);
  const message = lastUpTo(rank.messages, index);
  const problem = lastUpTo(rank.problems, index);
  const again = lastUpTo(residencies.again, index);
  const roots = countUpTo(residencies.roots, index);
  const { index: _, ...since } = breaks.at(-1) ?? { index: -1 };
  return {
    since: breaks.length ? /** @type {Since} */ (since) : null,
    gaps: breaks.filter(({ reason }) => reason === "gap").length,
    messages: countUpTo(rank.messages, index),
    last: message?.sequence ?? null,
    replayed: sums?.replayed ?? 0,
    unmatched: sums?.unmatched ?? 0,
    unread: sums?.unread ?? 0,
    problem: problem && (message?.index ?? -1) <= problem.index ? problem.problem : "",
    readings: Object.fromEntries(
      [...rank.readings].flatMap(([name, list]) => {
        const count = countUpTo(list, index);
        const some = list.slice(Math.max(0, count - POINTS), count);
        return count ? [[name, some.map(({ at, value }) => /** @type {Point} */ ([at, value]))]] : [];
      }),
    ),
    hits: hitsSince(rank, index),
    families: familiesAt(rank, index),
    groups: [...residencies.groups.values()],
    stored: lastUpTo(residencies.stored, index)?.count ?? 0,
    restored: lastUpTo(residencies.restored, index)?.count ?? 0,
    again: {
      n: again?.n ?? 0,
      most: again?.most ?? 0,
      lacking: [...residencies.lacking].flatMap(([group, counts]) => {
        const count = lastUpTo(counts, index)?.count;
        return count ? [{ group, count }] : [];
      }),
    },
    roots,
    elsewhere: elsewhere(log, which, index, roots),
  };
}

/**
 * Return how many of the first `count` prefix roots of a rank are also on another rank.
 * @param {TraceLog} log
 * @param {number} which
 * @param {number} index
 * @param {number} count
 */
function elsewhere(log, which, index, count) {
  const all = residenciesOf(log);
  const others = all.filter((_, rank) => rank !== which);
  if (!others.length) return 0;
  return all[which].roots
    .slice(0, count)
    .filter(({ hash }) => others.some(({ byHash }) => Number(byHash.get(hash)?.[0].from) <= index)).length;
}

/** @param {TraceLog} log @param {number} which @param {number[]} tokens @param {number} index @returns {Chains} */
function chainsOn(log, which, tokens, index) {
  const rank = residenciesOf(log)[which];
  const groups = [...rank.groups.values()];
  const sizes = [...new Set(groups.map(({ size }) => size).filter(Boolean))].sort((a, b) => a - b);
  const salts = new Set(rank.roots.slice(0, countUpTo(rank.roots, index)).map(({ salt }) => salt));
  salts.delete(null);
  const chains = [null, ...salts].flatMap((salt) =>
    sizes.map((size) => ({ salt, size, links: linksOf(log, which, tokens, index, salt, size) })),
  );
  return { groups, chains: chains.filter(({ salt, links }) => salt === null || links.length), unkept: 0 };
}

/**
 * @param {TraceLog} log @param {number} which @param {number[]} tokens @param {number} index
 * @param {string | null} salt @param {number} size @returns {Link[]}
 */
function linksOf(log, which, tokens, index, salt, size) {
  const [rank, contents] = [residenciesOf(log)[which], contentsOf(log)];
  /** @type {Link[]} */
  const links = [];
  /** @type {string | null} */
  let parent = null;
  for (let end = size; end <= tokens.length; end += size) {
    const content = contents.after(parent, salt, tokens.slice(end - size, end));
    if (!content || content.record > index) break;
    links.push({ end, ...residencyAt(rank, content.hash, index) });
    parent = content.hash;
  }
  return links;
}
