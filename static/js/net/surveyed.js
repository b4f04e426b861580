// A long log of the server, asked for piece by piece: numbers of the whole run, its sequences, and the blocks after the
// record that is looked at. Nothing of it is folded here, and the log itself never comes.

import { batch, computed, signal } from "../../vendor/signals/signals.js";
import { binsOf, pieceOf, sequencesOf, windowOf } from "../core/survey.js";
import { own } from "../state/run.js";
import { viewIndex } from "../state/store.js";

const SOON = 200; // ms between two looks while nothing is known
const AGAIN = 1000; // ms between two looks at a survey that is being made
const LATER = 4000; // ms, where nearly all is known: of a run that goes on, which is read anew each time
const BINS = 1600;
export const STILL = 250; // ms at one record before what is said of it alone is asked for
const AHEAD = 128; // records before the end of what is here at which more is asked for
const PIECE = 256; // records asked for at a time
const BEHIND = 192; // records that are there for who walks back
const NEAR = 1024; // records to which one walks rather than jumps

/**
 * @typedef {{
 *   num_records: number, num_surveyed: number, is_done: boolean, problem: string, num_blocks: number,
 *   num_sequences: number, series: string[], media: string[], seconds: number,
 * }} Overview of the log and what is known of it; `problem`: why it ends early, or ""; `series`: numbers that it says,
 *   `media`: outside the pool, of which it says what lies there
 * @typedef {import("../core/survey.js").BlockWindow} BlockWindow
 * @typedef {{window: BlockWindow, at: number, record: import("../core/trace.js").StepRecord | null}} Shown
 */

/**
 * How much the server knows of the log; null: nothing yet.
 *
 * @type {import("../../vendor/signals/signals.js").Signal<Overview | null>}
 */
export const overview = signal(null);
/**
 * Whether records that there were at the look before are not known yet. A run that goes on always has some that came
 * since: those are no reason to say so.
 *
 * @type {import("../../vendor/signals/signals.js").Signal<boolean>}
 */
export const isBehind = signal(false);
/** @type {import("../../vendor/signals/signals.js").Signal<import("../core/survey.js").Bins | null>} */
export const bins = signal(null);
/** @type {import("../../vendor/signals/signals.js").Signal<import("../core/survey.js").SequenceRow[]>} */
export const sequences = signal([]);
/**
 * What is drawn: the blocks as they are after record `at`. A new object for each record.
 *
 * @type {import("../../vendor/signals/signals.js").Signal<Shown | null>}
 */
export const shown = signal(null);
/** The record that is looked at: the one asked for, or the last that is known. */
export const place = computed(() => Math.min(viewIndex.value, (overview.value?.num_surveyed ?? 0) - 1));
/** Whether the survey is made anew, as one that turned out to be damaged is: what is asked of it waits. */
export const isMadeAnew = signal(false);
/**
 * Why nothing comes; null: it does.
 *
 * @type {import("../../vendor/signals/signals.js").Signal<string | null>}
 */
export const trouble = signal(null);

let life = 0; // of what is followed: answers for an earlier one count for nothing
let wanted = -1; // the record that is asked for, known or not
let asking = false;

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
 * As `ask`, of what is said of records up to `record`: where the survey is made anew, as soon as it is as far again.
 *
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
  isMadeAnew.value = true;
  await surveyReaches(theater, record + 1, () => life === mine);
  if (life === mine) isMadeAnew.value = false;
  return ask(what, query, theater, more);
}

/** @param {number} record @param {string} what @param {Record<string, number>} query */
const bytes = async (record, what, query) => new Uint8Array(await (await askUpTo(record, what, query)).arrayBuffer());

/**
 * Wait until the survey of a run knows `count` records, or will never: who asks it is told why.
 *
 * @param {string} theater
 * @param {number} count
 * @param {() => boolean} stays false: nobody waits any more
 */
export async function surveyReaches(theater, count, stays) {
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

/** Begin to follow the survey of the run on show. Returns the way to end it. */
export function follow() {
  const mine = ++life;
  batch(() => {
    overview.value = bins.value = shown.value = trouble.value = null;
    sequences.value = [];
    isBehind.value = isMadeAnew.value = false;
  });
  look(mine);
  return () => {
    if (life === mine) life++;
  };
}

/** @param {number} mine */
async function look(mine) {
  let before = 0;
  let all = Number.POSITIVE_INFINITY; // records at the look before
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
      if (code && code !== "loading") return void (trouble.value = message);
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
    trouble.value = null;
    overview.value = found;
    bins.value = binsOf(numbers);
    sequences.value = sequencesOf(rows);
  });
  show(wanted);
}

/**
 * Show the blocks after record `index` as soon as they are here.
 *
 * @param {number} index
 */
export function show(index) {
  wanted = index;
  if (!overview.peek()) return;
  const window = shown.peek()?.window;
  if (window?.has(target())) draw(window, target());
  ahead();
}

/** The record that is asked for, or the last that is known. */
const target = () => Math.min(wanted, (overview.peek()?.num_surveyed ?? 0) - 1);

/** @param {BlockWindow} window @param {number} at */
function draw(window, at) {
  window.goTo(at);
  shown.value = { window, at, record: window.record(at) };
}

/** Ask for what is missing, one thing at a time; what is wanted meanwhile is asked for next. */
async function ahead() {
  if (asking) return;
  asking = true;
  const mine = life;
  try {
    for (let step = next(); step && life === mine; step = next()) await step();
  } catch (error) {
    if (life === mine) trouble.value = error instanceof Error ? error.message : String(error);
  } finally {
    asking = false;
  }
  if (life !== mine && overview.peek()) show(wanted);
}

/** What is to be asked for now, or null. */
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

/** The blocks some records before `index`, and what changes up to it. @param {number} index @param {number} behind */
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
 * The prefix cache of an instance after a record, as its largest branches.
 *
 * @param {number} record
 * @param {number} instance
 * @returns {Promise<import("../core/branch_rows.js").Branches>}
 */
export const prefixesAt = async (record, instance) => (await askUpTo(record, "/prefixes", { record, instance })).json();

/**
 * What a watched server had said up to a record.
 *
 * @type {import("../core/heard.js").Heard}
 */
export const heard = {
  still: STILL,
  said: async (record) => (await (await askUpTo(record, "/heard", { record })).json()).ranks,
  roots: async (rank, record) => (await (await askUpTo(record, "/heard/roots", { rank, record })).json()).roots,
  chains: async (tokens, record) => {
    const body = JSON.stringify({ record, token_ids: tokens });
    return (await (await askUpTo(record, "/heard/chains", {}, { method: "POST", body })).json()).ranks;
  },
};

/**
 * The record of [first, end) at which `name` (a number of the series) is largest.
 *
 * @param {string} name
 * @param {number} first
 * @param {number} end
 */
export async function largestIn(name, first, end) {
  const found = binsOf(await bytes(end - 1, "/series", { first, end, bins: end - first }));
  const values = found[`${name}_max`];
  return first + values.reduce((best, value, i) => (value > values[best] ? i : best), 0);
}
