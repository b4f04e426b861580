// Windows of a long log on the server: aggregates of the run, its sequences, and the blocks after the displayed
// record. The page neither downloads nor replays the log.

import { batch, computed, signal } from "../../vendor/signals/signals.js";
import { binsOf, pieceOf, sequencesOf, windowOf } from "../core/log_index.js";
import { own } from "../state/run.js";
import { viewIndex } from "../state/store.js";

/** @import {Signal} from "../../vendor/signals/signals.js" */
/** @import {BlockWindow} from "../core/log_index.js" */

const FIRST_POLL_MS = 200; // between polls while nothing is indexed
const POLL_MS = 1000; // between polls while the index is being built
const LIVE_POLL_MS = 4000; // between polls of a live run whose index is nearly complete; each fetches all results again
const BINS = 1600;
export const STILL_MS = 250; // for which a record must be displayed before its details are requested
const AHEAD = 128; // remaining records at which the next are requested
const PIECE = 256; // records per request
const BEHIND = 192; // records before the current one to load for stepping back
const NEAR = 1024; // records; a larger distance is a jump instead of a walk

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
 * Whether records known at the previous poll are not indexed. Newer ones, which a live run always has, do not
 * count.
 * @type {Signal<boolean>}
 */
export const isBehind = signal(false);
/** @type {Signal<import("../core/log_index.js").Bins | null>} */
export const bins = signal(null);
/** @type {Signal<import("../core/log_index.js").SequenceRow[]>} */
export const sequences = signal([]);
/** Displayed state: the blocks after record `at`. A new object for each record. @type {Signal<Shown | null>} */
export const shown = signal(null);
/** Displayed record: the requested one, or the last indexed one. */
export const place = computed(() => Math.min(viewIndex.value, (overview.value?.num_surveyed ?? 0) - 1));
/** Whether the index is being rebuilt, for example because it was damaged; queries wait for it. */
export const isRebuilt = signal(false);
/** Reason that no data arrives, or null. @type {Signal<string | null>} */
export const problem = signal(null);

let generation = 0; // of the followed log; responses for an earlier one are ignored
let requested = -1; // requested record, indexed or not
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
 * Query data up to `record` with `ask`. During a rebuild, wait until the index covers that record.
 * @param {number} record
 * @param {string} what
 * @param {Record<string, number>} query
 * @param {RequestInit} [more]
 */
async function askUpTo(record, what, query, more) {
  const [started, theater] = [generation, own.large.peek()?.theater];
  try {
    return await ask(what, query, theater, more);
  } catch (error) {
    const { code } = /** @type {Error & {code?: string}} */ (error);
    if (code !== "loading" || !theater || generation !== started) throw error;
  }
  isRebuilt.value = true;
  await indexReaches(theater, record + 1, () => generation === started);
  if (generation === started) isRebuilt.value = false;
  return ask(what, query, theater, more);
}

/** @param {number} record @param {string} what @param {Record<string, number>} query */
const bytes = async (record, what, query) => new Uint8Array(await (await askUpTo(record, what, query)).arrayBuffer());

/**
 * Wait until a run's index covers `count` records; returns early if it never will.
 * @param {string} theater
 * @param {number} count
 * @param {() => boolean} isNeeded whether the result is still needed
 */
export async function indexReaches(theater, count, isNeeded) {
  while (isNeeded()) {
    let wait = POLL_MS;
    try {
      const found = await (await ask("", {}, theater)).json();
      if (found.num_surveyed >= count || found.is_done) return;
    } catch (error) {
      const { code } = /** @type {Error & {code?: string}} */ (error);
      if (code && code !== "loading") return;
      if (code) wait = FIRST_POLL_MS;
    }
    await later(wait);
  }
}

/** @param {number} wait ms */
const later = (wait) => new Promise((done) => setTimeout(done, wait));

/** Follow the index of the shown run. Returns a function that stops it. */
export function follow() {
  const started = ++generation;
  batch(() => {
    overview.value = bins.value = shown.value = problem.value = null;
    sequences.value = [];
    isBehind.value = isRebuilt.value = false;
  });
  poll(started);
  return () => {
    if (generation === started) generation++;
  };
}

/** @param {number} started */
async function poll(started) {
  let before = 0;
  let known = Number.POSITIVE_INFINITY; // records at the previous poll
  let wait = POLL_MS;
  for (;;) {
    try {
      const found = await (await ask("")).json();
      if (generation !== started) return;
      if (found.num_surveyed > before) await fetchResults(started, found);
      before = found.num_surveyed;
      isBehind.value = !found.is_done && before < Math.min(known, found.num_records);
      known = found.num_records;
      if (found.is_done) return;
      wait = found.num_surveyed > 0.9 * found.num_records ? LIVE_POLL_MS : POLL_MS;
    } catch (error) {
      if (generation !== started) return;
      const { message, code } = /** @type {Error & {code?: string}} */ (error);
      if (code && code !== "loading") return void (problem.value = message);
      wait = code && !before ? FIRST_POLL_MS : POLL_MS;
    }
    await later(wait);
    if (generation !== started) return;
  }
}

/** @param {number} started @param {Overview} found */
async function fetchResults(started, found) {
  const last = found.num_surveyed - 1;
  const [numbers, rows] = await Promise.all([bytes(last, "/series", { bins: BINS }), bytes(last, "/sequences", {})]);
  if (generation !== started) return;
  batch(() => {
    problem.value = null;
    overview.value = found;
    bins.value = binsOf(numbers);
    sequences.value = sequencesOf(rows);
  });
  show(requested);
}

/** Show the blocks after record `index` as soon as they are available. @param {number} index */
export function show(index) {
  requested = index;
  if (!overview.peek()) return;
  const window = shown.peek()?.window;
  if (window?.has(target())) draw(window, target());
  fetchMissing();
}

/** Return the requested record, or the last indexed one. */
const target = () => Math.min(requested, (overview.peek()?.num_surveyed ?? 0) - 1);

/** @param {BlockWindow} window @param {number} at */
function draw(window, at) {
  window.goTo(at);
  shown.value = { window, at, record: window.record(at) };
}

/** Request missing data, one request at a time, until the requested record is available. */
async function fetchMissing() {
  if (isPolling) return;
  isPolling = true;
  const started = generation;
  try {
    for (let step = next(); step && generation === started; step = next()) await step();
  } catch (error) {
    if (generation === started) problem.value = error instanceof Error ? error.message : String(error);
  } finally {
    isPolling = false;
  }
  if (generation !== started && overview.peek()) show(requested);
}

/** Return the next request, or null. */
function next() {
  const known = overview.peek()?.num_surveyed ?? 0;
  const window = shown.peek()?.window;
  if (!known) return null;
  const to = target();
  const isNear = window && to >= window.end && to < window.end + NEAR;
  if (window && (isNear || (window.has(to) && window.end < Math.min(known, to + AHEAD))))
    return () => extendWindow(window);
  if (window?.has(to)) return null;
  const walksBack = window && to < window.first && to >= window.first - NEAR;
  return () => jump(to, walksBack ? BEHIND : 1);
}

/** @param {BlockWindow} window */
async function extendWindow(window) {
  const started = generation;
  const piece = pieceOf(await bytes(window.end, "/changes", { first: window.end, end: window.end + PIECE }));
  if (generation !== started || shown.peek()?.window !== window || piece.first !== window.end) return;
  window.extend(piece);
  if (window.has(target())) draw(window, target());
}

/**
 * Fetch the blocks `behind` records before `index`, and the changes from there.
 * @param {number} index
 * @param {number} behind
 */
async function jump(index, behind) {
  const started = generation;
  const from = Math.max(-1, index - behind);
  const [start, changes] = await Promise.all([
    bytes(index, "/blocks", { record: from }),
    index >= 0 ? bytes(index, "/changes", { first: from + 1, end: index + 1 }) : null,
  ]);
  if (generation !== started) return;
  const window = windowOf(start);
  if (changes) window.extend(pieceOf(changes));
  const at = window.has(target()) ? target() : Math.min(index, window.end - 1);
  draw(window, at);
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
  still: STILL_MS,
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
