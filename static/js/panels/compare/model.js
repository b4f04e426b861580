// Two runs of this server side by side: which two, and what the server says of them, asked again as long as one grows.

import { batch, computed, effect, signal } from "../../../vendor/signals/signals.js";
import { command } from "../../net/commands.js";
import { session } from "../../net/session.js";
import { settings } from "../../state/settings.js";
import { connection, goTo, numRecords } from "../../state/store.js";

const SOON = 300; // ms after a change
const AGAIN = 1500; // ms between two questions while a run that is not on stage goes on

/**
 * @typedef {import("./comparison.js").Answer} Answer
 * @typedef {import("./comparison.js").Side} Side
 * @typedef {Answer["runs"][number]["status"]} Status
 * @typedef {{strategy: string, block_size: number, num_blocks: number}} Config as far as a run is called after it
 *
 * A run that can be compared.
 * @typedef {{
 *   id: string,
 *   name: string,
 *   title?: {en: string, zh: string} | null,
 *   kind: "theater" | "recording",
 *   config: Config,
 *   records: number,
 *   fork: {at: number} | null,
 * }} Run
 */

/** The two runs, by the id of their theater or recording: the first is the one on stage unless another was chosen. */
export const chosen = computed(() => ({ a: settings.run_a.value ?? settings.theater.value, b: settings.run_b.value }));

/** The answer of /api/compare; null while there is none. */
export const comparison = signal(/** @type {Answer | null} */ (null));
/** Why there is none, as the server said it; null. */
export const problem = signal(/** @type {string | null} */ (null));
/** What can be compared. */
export const runs = signal(/** @type {Run[]} */ ([]));

const moved = signal(0); // grows when a run that is not on stage was stepped from here

/** Ask as long as the panel is there. Returns the way to stop. */
export function followComparison() {
  /** @type {ReturnType<typeof setTimeout> | null} */
  let timer = null;
  let last = 0; // questions asked
  let answered = 0; // the latest of them whose answer is shown
  const later = (/** @type {number} */ ms) => (timer ??= setTimeout(ask, ms));
  async function ask() {
    timer = null;
    const mine = ++last;
    const { a, b } = chosen.peek();
    try {
      const [listed, answer] = await Promise.all([listRuns(), a && b ? compare(a, b) : null]);
      const now = chosen.peek();
      if (mine < answered || now.a !== a || now.b !== b) return;
      answered = mine;
      runs.value = listed;
      problem.value = answer && "error" in answer ? answer.error.message : null;
      comparison.value = answer && !("error" in answer) ? answer : null;
      if (comparison.value?.runs?.some(({ status }) => grows(status))) later(AGAIN);
    } catch {
      if (mine === last) later(4 * AGAIN); // the server is away: the page says so elsewhere
    }
  }
  const stop = effect(() => {
    chosen.value;
    numRecords.value;
    connection.value;
    moved.value;
    later(SOON);
  });
  return () => {
    stop();
    if (timer !== null) clearTimeout(timer);
    last = -1;
    answered = Infinity;
  };
}

/** Whether there is something left to compute in one of the two. */
export const canContinue = computed(() => comparison.value?.runs.some(({ status }) => continues(status)) ?? false);

/** @param {Status} status */
const grows = (status) => status.fork?.active || (status.mode === "running" && status.unfinished > 0);

/** @param {Status} status */
const continues = (status) => status.mode === "paused" && status.unfinished > 0 && !status.fork?.active;

/**
 * Take up to `count` steps of both runs, each as far as it has something to compute.
 * @param {number} count
 */
export async function continueBoth(count) {
  for (const { theater, status } of comparison.peek()?.runs ?? [])
    if (continues(status)) await command("step", { theater, count });
  moved.value += 1;
}

/**
 * Show record `index` of run `side` on the stage, which follows that run then.
 * @param {Side} side
 * @param {number} index
 */
export async function look(side, index) {
  const { a, b } = chosen.peek();
  const id = side === "a" ? a : b;
  if (id === settings.theater.peek()) return goTo(index);
  // the first is named, so that it stays the first when another run is on stage
  if (id !== null && (await session.watch(id, index)))
    batch(() => ((settings.run_a.value = a), (settings.run_b.value = b)));
}

/**
 * @param {string} a
 * @param {string} b
 * @returns {Promise<Answer | {error: {message: string}}>}
 */
const compare = (a, b) => fetchJson(`api/compare?a=${encodeURIComponent(a)}&b=${encodeURIComponent(b)}`);

/** @returns {Promise<Run[]>} */
async function listRuns() {
  /** @type {[{theaters: Theater[]}, Partial<Library>]} */
  const [{ theaters }, { recordings = [] }] = await Promise.all([
    fetchJson("api/theaters"),
    fetchJson("api/recordings"),
  ]);
  return [
    ...theaters.map(({ theater: id, name, config, status }) => {
      return /** @type {Run} */ ({ id, name, kind: "theater", config, records: status.num_records, fork: status.fork });
    }),
    ...recordings.map(({ id, name, title, summary: { config, num_records: records } }) => {
      return /** @type {Run} */ ({ id, name, title, kind: "recording", config, records, fork: null });
    }),
  ];
}

/**
 * @typedef {{theater: string, name: string, config: Config, status: Status}} Theater
 * @typedef {import("../../core/wire.js").Answers["/api/recordings"]} Library
 */

/** @param {string} address */
const fetchJson = async (address) => (await fetch(address)).json();
