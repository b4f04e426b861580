// Comparison of two runs of this server. The server's answer is refreshed while one of the runs is growing.

import { batch, computed, effect, signal } from "../../../vendor/signals/signals.js";
import { openRun } from "../../control/deep_link.js";
import { refusalText } from "../../i18n/language.js";
import { command } from "../../net/commands.js";
import { createdSessions } from "../../net/created_sessions.js";
import { isRecording } from "../../net/followed_run.js";
import { settings } from "../../state/settings.js";
import { connection, goTo, numRecords } from "../../state/store.js";
import { canStep, isGrowing, steppable } from "./comparison.js";

/** @import {Answers} from "../../core/wire.js" */
/** @import {Answer, Side} from "./comparison.js" */

const REFRESH_DELAY_MS = 300; // after a change
const POLL_MS = 1500; // between two requests while a run that is not on stage advances

/**
 * @typedef {Record<string, unknown>} Config
 *
 * A run that can be compared.
 * @typedef {{
 *   id: string,
 *   name: string,
 *   title?: Record<string, string> | null,
 *   group: "own" | "shipped" | "other",
 *   config: Config,
 *   records: number,
 *   requests: number | null,
 *   preview: string,
 *   model: string,
 *   created: string,
 *   fork: {at: number} | null,
 * }} Run
 */

/** Id of the run on stage: a recording or the live run. Null for a file that the server does not have. */
export const onStage = computed(() => {
  if (connection.value !== "replay") return settings.theater.value;
  return isRecording(settings.recording.value) ? settings.recording.value : null;
});

/** Ids of the two runs (sessions or recordings). The first is the one on stage unless another is chosen. */
export const chosen = computed(() => ({ a: settings.run_a.value ?? onStage.value, b: settings.run_b.value }));

/** Answer of /api/compare, or null. */
export const comparison = signal(/** @type {Answer | null} */ (null));
/** The server's error message, or null. */
export const problem = signal(/** @type {string | null} */ (null));
/** Runs that can be compared. */
export const runs = signal(/** @type {Run[]} */ ([]));

const stepped = signal(0); // increments when a run that is not on stage is stepped from here

/** Request the comparison while the panel is mounted. Returns a function that stops it. */
export function followComparison() {
  /** @type {ReturnType<typeof setTimeout> | null} */
  let timer = null;
  let last = 0; // number of requests sent
  let answered = 0; // the latest request whose answer is shown
  const schedule = (/** @type {number} */ ms) => (timer ??= setTimeout(send, ms));
  async function send() {
    timer = null;
    const request = ++last;
    const { a, b } = chosen.peek();
    try {
      const [listed, answer] = await Promise.all([listRuns(), a && b ? compare(a, b) : null]);
      const now = chosen.peek();
      if (request < answered || now.a !== a || now.b !== b) return;
      answered = request;
      runs.value = listed;
      problem.value = answer && "error" in answer ? refusalText(answer.error) : null;
      comparison.value = answer && !("error" in answer) ? answer : null;
      if (comparison.value?.runs?.some(isGrowing)) schedule(POLL_MS);
    } catch {
      if (request === last) schedule(4 * POLL_MS); // the server is unreachable; the page reports that elsewhere
    }
  }
  const stop = effect(() => {
    chosen.value;
    numRecords.value;
    connection.value;
    stepped.value;
    schedule(REFRESH_DELAY_MS);
  });
  return () => {
    stop();
    if (timer !== null) clearTimeout(timer);
    last = -1;
    answered = Infinity;
  };
}

/** Whether one of the runs has work left, now or after its fork has repeated the earlier records. */
export const canContinue = computed(() => canStep(comparison.value?.runs ?? []));

/** Runs that `continueBoth` steps. */
export const continuing = computed(() => steppable(comparison.value?.runs ?? []));

/** Take up to `count` steps of both runs, each as long as it has work. @param {number} count */
export async function continueBoth(count) {
  for (const { theater } of continuing.peek()) await command("step", { theater, count });
  stepped.value += 1;
}

/** Show record `index` of run `side` on the stage and follow that run. @param {Side} side @param {number} index */
export async function showRecord(side, index) {
  const { a, b } = chosen.peek();
  const id = side === "a" ? a : b;
  if (id === onStage.peek()) return goTo(index);
  // name the first run explicitly, so that it stays the first when another run is on stage
  if (id !== null && (await openRun(id, index))) batch(() => ((settings.run_a.value = a), (settings.run_b.value = b)));
}

/** @param {string} a @param {string} b @returns {Promise<Answer | {error: {message: string}}>} */
const compare = (a, b) => fetchJson(`api/compare?a=${encodeURIComponent(a)}&b=${encodeURIComponent(b)}`);

/** List the runs that can be compared, own runs first. @returns {Promise<Run[]>} */
async function listRuns() {
  /** @type {[Answers["/api/theaters"], Partial<Answers["/api/recordings"]>]} */
  const [{ theaters }, { recordings = [] }] = await Promise.all([
    fetchJson("api/theaters"),
    fetchJson("api/recordings"),
  ]);
  const ownSessions = new Set([...createdSessions.peek(), settings.theater.peek()]);
  return [
    ...theaters.map(({ theater: id, name, config, status: { fork }, summary }) =>
      runOf({ id, name, config, fork, summary, group: ownSessions.has(id) && !name ? "own" : "other" }),
    ),
    ...recordings.map(({ id, name, title, source, summary }) =>
      runOf({
        id,
        name,
        title,
        config: summary.config,
        fork: null,
        summary,
        group: source === "shipped" ? source : "own",
      }),
    ),
  ];
}

/**
 * @param {Pick<Run, "id" | "name" | "title" | "group" | "fork"> & {config: object, summary: Summary}} listed
 * @returns {Run}
 */
const runOf = ({ summary, config, ...run }) => ({
  ...run,
  config: /** @type {Config} */ (config),
  records: summary.num_records,
  requests: summary.num_requests ?? null,
  preview: summary.preview,
  model: summary.model,
  created: summary.created,
});

/** @typedef {Answers["/api/recordings"]["recordings"][number]["summary"]} Summary */

/** @param {string} address */
const fetchJson = async (address) => (await fetch(address)).json();
