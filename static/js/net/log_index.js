// Windows of a long log on the server: aggregates of the whole run, its sequences, and the blocks after the record on
// view. The log is not downloaded and nothing is folded here.

import { batch, computed, signal } from "../../vendor/signals/signals.js";
import { binsOf, pieceOf, sequencesOf, windowOf } from "../core/log_index.js";
import { own } from "../state/run.js";
import { viewIndex } from "../state/store.js";

/** @import {Signal} from "../../vendor/signals/signals.js" */
/** @import {BlockWindow} from "../core/log_index.js" */

const SOON = 200; // ms between two polls while nothing is indexed
const AGAIN = 1000; // ms between two polls while the index is being built
const LATER = 4000; // ms between two polls of a live run whose index is nearly complete; each poll rereads the results
const BINS = 1600;
export const STILL = 250; // ms that a record stays on view before its own details are requested
const AHEAD = 128; // remaining records at which more are requested
const PIECE = 256; // records per request
const BEHIND = 192; // records kept for stepping back
const NEAR = 1024; // records; larger distances are a jump instead of a walk

/**
 * @typedef {{
 *   num_records: number, num_surveyed: number, is_done: boolean, problem: string, num_blocks: number,
 *   num_sequences: number, series: string[], media: string[], seconds: number,
 * }} Overview status of the log's index; `problem`: reason for an early end, or ""; `series`: available columns;
 * `media`: media outside the pool with indexed contents
 * @typedef {{window: BlockWindow, at: number, record: import("../core/trace.js").StepRecord | null}} Shown
 */

/** Index status of the log; null if unknown. @type {Signal<Overview | null>} */
export const overview = signal(null);
/**
 * Whether records known at the previous poll are not indexed yet. A live run always has some newer ones; those do not
 * count.
 * @type {Signal<boolean>}
 */
export const isBehind = signal(false);
/** @type {Signal<import("../core/log_index.js").Bins | null>} */
export const bins = signal(null);
/** @type {Signal<import("../core/log_index.js").SequenceRow[]>} */
export const sequences = signal([]);
/** State drawn: the blocks after record `at`. A new object for each record. @type {Signal<Shown | null>} */
export const shown = signal(null);
/** Record on view: the requested one, or the last indexed one. */
export const place = computed(() => Math.min(viewIndex.value, (overview.value?.num_surveyed ?? 0) - 1));
/** Whether the index is being rebuilt, for example because it was damaged; queries wait for it. */
export const isRebuilt = signal(false);
/** Reason that no data arrives; null if it does. @type {Signal<string | null>} */
export const problem = signal(null);

let life = 0; // generation of the followed log: responses of an earlier one are dropped
let wanted = -1; // requested record, indexed or not
let isPolling = false;

/**
 * @param {string} what
 * @param {Record<string, number>} [query]
 * @param {string} [theater]
 * @param {RequestInit} [more]
 */
async function ask(what, query = {}, theater = own.large.peek()?.theater, more) {
  const address = `api/theaters/${theater}/survey${what}?${new URLSearchParams(
    Object.entries(query).map(([name, value]) => [name, String(value)]),
  )}`;
  const answer = await fetch(address, more);
  if (answer.ok) return answer;
  const { error } = await answer.json();
  throw Object.assign(new Error(error.message), { code: error.code });
}

/**
 * Query data up to `record`, as `ask` does; during a rebuild, wait until the index covers that record.
 * @param {number} record
 * @param {string} what
 * @param {Record<string, number>} query
 * @param {RequestInit} [more]
 */
async function askUpTo(record, what, query, more) {
  const [mine, theater] = [life, own.large.peek()?.theater];
  try {
    return await ask(what, query, theater, more);
  } catch (error) {
    const { code } = /** @type {Error & {code?: string}} */ (error);
    if (code !== "loading" || !theater || life !== mine) throw error;
  }
  isRebuilt.value = true;
  await indexReaches(theater, record + 1, () => life === mine);
  if (life === mine) isRebuilt.value = false;
  return ask(what, query, theater, more);
}

/** @param {number} record @param {string} what @param {Record<string, number>} query */
const bytes = async (record, what, query) => new Uint8Array(await (await askUpTo(record, what, query)).arrayBuffer());

/**
 * Wait until a run's index covers `count` records; throws the reason if it never will.
 * @param {string} theater
 * @param {number} count
 * @param {() => boolean} stays false: the result is no longer needed
 */
export async function indexReaches(theater, count, stays) {
  while (stays()) {
    let wait = AGAIN;
    try {
      const found = await (await ask("", {}, theater)).json();
      if (found.num_surveyed >= count || found.is_done) return;
    } catch (error) {
      const { code } = /** @type {Error & {code?: string}} */ (error);
      if (code && code !== "loading") return;
      if (code) wait = SOON;
    }
    await later(wait);
  }
}

/** @param {number} wait ms */
const later = (wait) => new Promise((done) => setTimeout(done, wait));

/** Start following the index of the run on show. Returns a function that stops it. */
export function follow() {
  const mine = ++life;
  batch(() => {
    overview.value = bins.value = shown.value = problem.value = null;
    sequences.value = [];
    isBehind.value = isRebuilt.value = false;
  });
  look(mine);
  return () => {
    if (life === mine) life++;
  };
}

/** @param {number} mine */
async function look(mine) {
  let before = 0;
  let all = Number.POSITIVE_INFINITY; // records at the previous poll
  let wait = AGAIN;
  for (;;) {
    try {
      const found = await (await ask("")).json();
      if (life !== mine) return;
      if (found.num_surveyed > before) await read(mine, found);
      before = found.num_surveyed;
      isBehind.value = !found.is_done && before < Math.min(all, found.num_records);
      all = found.num_records;
      if (found.is_done) return;
      wait = found.num_surveyed > 0.9 * found.num_records ? LATER : AGAIN;
    } catch (error) {
      if (life !== mine) return;
      const { message, code } = /** @type {Error & {code?: string}} */ (error);
      if (code && code !== "loading") return void (problem.value = message);
      wait = code && !before ? SOON : AGAIN;
    }
    await later(wait);
    if (life !== mine) return;
  }
}

/** @param {number} mine @param {Overview} found */
async function read(mine, found) {
  const last = found.num_surveyed - 1;
  const [numbers, rows] = await Promise.all([bytes(last, "/series", { bins: BINS }), bytes(last, "/sequences", {})]);
  if (life !== mine) return;
  batch(() => {
    problem.value = null;
    overview.value = found;
    bins.value = binsOf(numbers);
    sequences.value = sequencesOf(rows);
  });
  show(wanted);
}

/** Show the blocks after record `index` as soon as they are available. @param {number} index */
export function show(index) {
  wanted = index;
  if (!overview.peek()) return;
  const window = shown.peek()?.window;
  if (window?.has(target())) draw(window, target());
  ahead();
}

/** Return the requested record, or the last indexed one. */
const target = () => Math.min(wanted, (overview.peek()?.num_surveyed ?? 0) - 1);

/** @param {BlockWindow} window @param {number} at */
function draw(window, at) {
  window.goTo(at);
  shown.value = { window, at, record: window.record(at) };
}

/** Request what is missing, one request at a time; later wishes are handled afterwards. */
async function ahead() {
  if (isPolling) return;
  isPolling = true;
  const mine = life;
  try {
    for (let step = next(); step && life === mine; step = next()) await step();
  } catch (error) {
    if (life === mine) problem.value = error instanceof Error ? error.message : String(error);
  } finally {
    isPolling = false;
  }
  if (life !== mine && overview.peek()) show(wanted);
}

/** Return the next request, or null. */
function next() {
  const known = overview.peek()?.num_surveyed ?? 0;
  const window = shown.peek()?.window;
  if (!known) return null;
  const to = target();
  const isNear = window && to >= window.end && to < window.end + NEAR;
  if (window && (isNear || (window.has(to) && window.end < Math.min(known, to + AHEAD)))) return () => more(window);
  if (window?.has(to)) return null;
  const walksBack = window && to < window.first && to >= window.first - NEAR;
  return () => jump(to, walksBack ? BEHIND : 1);
}

/** @param {BlockWindow} window */
async function more(window) {
  const mine = life;
  const piece = pieceOf(await bytes(window.end, "/changes", { first: window.end, end: window.end + PIECE }));
  if (life !== mine || shown.peek()?.window !== window || piece.first !== window.end) return;
  window.extend(piece);
  if (window.has(target())) draw(window, target());
}

/** Fetch the blocks before `index` and the changes up to it. @param {number} index @param {number} behind */
async function jump(index, behind) {
  const mine = life;
  const from = Math.max(-1, index - behind);
  const [start, changes] = await Promise.all([
    bytes(index, "/blocks", { record: from }),
    index >= 0 ? bytes(index, "/changes", { first: from + 1, end: index + 1 }) : null,
  ]);
  if (life !== mine) return;
  const window = windowOf(start);
  if (changes) window.extend(pieceOf(changes));
  const stays = window.has(target()) ? target() : Math.min(index, window.end - 1);
  draw(window, stays);
}

/**
 * Fetch the prefix cache of an instance after a record, as its largest branches.
 * @param {number} record
 * @param {number} instance
 * @returns {Promise<import("../core/branch_rows.js").Branches>}
 */
export const prefixesAt = async (record, instance) => (await askUpTo(record, "/prefixes", { record, instance })).json();

/** Observed cache of a monitored server, up to a record. @type {import("../core/observed_cache.js").ObservedCache} */
export const observedCache = {
  still: STILL,
  reports: async (record) => (await (await askUpTo(record, "/heard", { record })).json()).ranks,
  roots: async (rank, record) => (await (await askUpTo(record, "/heard/roots", { rank, record })).json()).roots,
  chains: async (tokens, record) => {
    const body = JSON.stringify({ record, token_ids: tokens });
    return (await (await askUpTo(record, "/heard/chains", {}, { method: "POST", body })).json()).ranks;
  },
};

/**
 * Return the record of [first, end) at which `name` (a column of the series) is largest.
 * @param {string} name
 * @param {number} first
 * @param {number} end
 */
export async function largestIn(name, first, end) {
  const found = binsOf(await bytes(end - 1, "/series", { first, end, bins: end - first }));
  const values = found[`${name}_max`];
  return first + values.reduce((best, value, i) => (value > values[best] ? i : best), 0);
}
