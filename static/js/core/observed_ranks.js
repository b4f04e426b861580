// Figures reported by a monitored server's log, per rank; an incremental fold over the records.

import { folding } from "./folds.js";
import { lowest } from "./search.js";

/** @import {KnownSince, StepRecord} from "./trace.js" */

/**
 * @typedef {{index: number, at: number, epoch: number, sequence: number, reason: KnownSince["reason"],
 *   missed: number, outside: number}} Since `outside`: contents outside the pool, which are unknown from then on
 * @typedef {{index: number, at: number, value: number}} Reading a metric at one scrape
 * @typedef {object} Rank
 * @property {Since[]} since starts and restarts of the observation
 * @property {{index: number, sequence: number}[]} messages ascending by record
 * @property {{index: number, replayed: number, unmatched: number, unread: number}[]} sums after each message
 * @property {Map<string, Reading[]>} readings by the server's metric name
 * @property {{index: number, at: number, problem: string}[]} problems
 * @property {Map<string, Family>} families contents with the same properties, by those properties
 * @property {Map<string, Family>} byPlace family of the content at each place
 * @typedef {object} Family
 * @property {string} medium in upper case; "" = not reported, which means the GPU
 * @property {string} tier store of that medium, and its locality: LOCAL or REMOTE
 * @property {number | null} group
 * @property {string | null} kind of that group
 * @property {number | null} window
 * @property {string | null} lora
 * @property {{index: number, count: number}[]} counts number of contents after each record that changes it
 */

/** @returns {Rank} */
const empty = () => ({
  since: [],
  messages: [],
  sums: [],
  readings: new Map(),
  problems: [],
  families: new Map(),
  byPlace: new Map(),
});

/** Return the number of ranks of a monitored server. @param {import("./trace.js").Header} header */
export const numRanks = ({ instances }) => Math.max(1, instances?.length ?? 0);

/** Return the ranks of a log up to its end. */
export const ranksOf = folding(
  (/** @type {import("./log.js").TraceLog} */ { header }) => Array.from({ length: numRanks(header) }, empty),
  (ranks, record) => read(ranks[record.instance ?? 0], record),
);

/** @param {Rank} rank @param {StepRecord} record */
function read(rank, { index, ops = [], seen, timing: { at } }) {
  for (const op of ops) {
    if (op.type === "stored" && !op.again) addContent(rank, op, index);
    else if (op.type === "removed" && !op.num_left) removeContent(rank, placeKey(op), index);
    if (op.type === "known_since") {
      const outside = [...rank.byPlace.keys()].filter((place) => place.startsWith("-")).length;
      for (const place of [...rank.byPlace.keys()]) removeContent(rank, place, index);
      rank.since.push({
        outside,
        index,
        at,
        epoch: op.epoch,
        sequence: op.sequence,
        reason: op.reason,
        missed: op.num_missed ?? 0,
      });
    }
  }
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

/** Return the key of a place; one outside the pool begins with "-". */
export const placeKey = (/** @type {{place: number, outside?: boolean}} */ { place, outside }) =>
  `${outside ? "-" : ""}${place}`;

/** @param {Rank} rank @param {import("./trace.js").Stored} op @param {number} index */
function addContent(rank, op, index) {
  const { medium, tier = null, locality = null, group = null, kind = null, window = null, lora_name: lora = null } = op;
  const fields = [medium, tier, locality, group, kind, window, lora];
  const key = JSON.stringify(fields);
  let family = rank.families.get(key);
  if (!family) {
    const where = [tier, locality].filter(Boolean).join(" ");
    rank.families.set(key, (family = { medium, tier: where, group, kind, window, lora, counts: [] }));
  }
  rank.byPlace.set(placeKey(op), family);
  count(family, index, 1);
}

/** @param {Rank} rank @param {string} place @param {number} index */
function removeContent(rank, place, index) {
  const family = rank.byPlace.get(place);
  if (family) count(family, index, -1);
  rank.byPlace.delete(place);
}

/** @param {Family} family @param {number} index @param {number} by */
function count({ counts }, index, by) {
  const last = counts.at(-1);
  if (last?.index === index) last.count += by;
  else counts.push({ index, count: (last?.count ?? 0) + by });
}

/**
 * Return the families of a rank that have contents after record `index`, the largest first.
 * @param {Rank} rank
 * @param {number} index
 */
export const familiesAt = (rank, index) =>
  [...rank.families.values()]
    .map(({ counts, ...family }) => ({ ...family, count: lastUpTo(counts, index)?.count ?? 0 }))
    .filter((family) => family.count > 0)
    .sort((a, b) => b.count - a.count);

/**
 * Return the number of entries up to record `index` in a list that ascends by record.
 * @param {{index: number}[]} list
 * @param {number} index
 */
export const countUpTo = (list, index) => lowest(list.length, (i) => list[i].index > index);

/**
 * Return the last entry of a list up to record `index`; undefined: none.
 * @template {{index: number}} T
 * @param {T[]} list
 * @param {number} index
 */
export const lastUpTo = (list, index) => /** @type {T | undefined} */ (list[countUpTo(list, index) - 1]);

/**
 * Return hit and queried tokens since monitoring began, from two counters of the server; null if not reported. A
 * decreasing counter was reset to 0.
 * @param {Rank} rank
 * @param {number} index
 */
export function hitsSince(rank, index) {
  const [hits, queries] = ["vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total"].map((name) => {
    const list = rank.readings.get(name) ?? [];
    const count = countUpTo(list, index);
    let sum = 0;
    for (let i = 1; i < count; i++) {
      const more = list[i].value - list[i - 1].value;
      sum += more < 0 ? list[i].value : more;
    }
    return count ? sum : null;
  });
  return hits === null || queries === null ? null : { hits, asked: queries };
}
