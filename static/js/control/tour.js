// Tour of the first visit: six stops that explain the cache. The run determines whether a stop is completed.

import { batch, computed, effect, signal } from "../../vendor/signals/signals.js";
import { countSequences } from "../core/state.js";
import { widestHead } from "../core/wide_rows.js";
import { isPhone } from "../kit/measure.js";
import { settings, TABLE } from "../state/settings.js";
import { connection, own, pointed } from "../state/store.js";
import { helpOpen } from "./keyboard.js";
import { opening } from "./opening.js";

/** @import {Signal} from "../../vendor/signals/signals.js" */

// stored on this device: the current stop, "left:" and the stop at which the user left, or "done". Not a setting, as a
// link must not contain it.
const MEMORY_KEY = "kvtheater.tour";
const LEFT = "left:";

/** Name of the tour in a link to a lesson, and the lesson after it. */
const LESSON = "tour";
const NEXT_LESSON = "computed-twice";
/** Duration in minutes of all stops, estimated as for lessons. */
export const MINUTES = 4;

const decodes = () => {
  let count = 0;
  for (let i = 0; i < own.numRecords.value; i++)
    if (own.log.value?.records[i]?.batch?.some((entry) => entry.phase === "decode")) count += 1;
  return count;
};

/**
 * `target`: selector of the explained element; `phone`: of the element explained instead if the target is taller than
 * a phone's window; `region`: its region on a phone; `side`: placement of the card; `points`: whether the task is
 * pointing, or tapping without a mouse.
 *
 * @typedef {import("../state/settings.js").OwnValues["region"]} Region
 * @typedef {{
 *   id: string, target: string, phone?: string, region: Region, side: "right" | "below" | "left" | "above",
 *   points?: boolean, done: () => boolean
 * }} Stop
 */

/** Steps that the race has taken; set by its panel. */
export const raced = signal(0);

/** @type {Stop[]} */
export const STOPS = [
  {
    id: "ask",
    target: "#region-stage .token-row",
    region: "stage",
    side: "below",
    done: () => decodes() > before.decodes,
  },
  {
    id: "answer",
    target: "#region-stage .token-row",
    region: "stage",
    side: "below",
    points: true,
    done: () => pointed.value?.position !== undefined,
  },
  {
    id: "again",
    target: "#race .race-lanes",
    phone: "#race .race-lane",
    region: "detail",
    side: "left",
    done: () => raced.value > 1,
  },
  {
    id: "keep",
    target: "#region-stage .token-row",
    region: "stage",
    side: "below",
    done: () => decodes() > before.decodes,
  },
  {
    id: "blocks",
    target: "#region-memory .pool",
    region: "memory",
    side: "left",
    points: true,
    done: () => pointed.value?.block !== undefined,
  },
  {
    id: "yours",
    target: "#region-setup .composer",
    region: "setup",
    side: "right",
    done: () => sequences() > before.sequences,
  },
];

/** Index of the stop shown, or null. @type {Signal<number | null>} */
export const stop = signal(null);
/** @type {Signal<Set<string>>} */
const finished = signal(new Set()); // ids of completed stops
export const isDone = computed(() => stop.value !== null && finished.value.has(STOPS[stop.value].id));

const sequences = () => (own.numRecords.value, own.log.value ? countSequences(own.log.value.tail) : 0);
/**
 * Progress on this device: the last stop, and whether the tour was completed.
 * @type {Signal<{state: "new" | "begun" | "over", at: number}>}
 */
export const tourState = signal({ state: /** @type {const} */ ("new"), at: 0 });
let before = { decodes: 0, sequences: 0 }; // state of the run when the stop began
/** @type {Pick<Storage, "getItem" | "setItem"> | null} */
let storage = null;

/** @type {(keyof import("../state/settings.js").Settings)[]} */
const PLACES = ["theater", "recording", "step", "scene", "exhibit", "run_a", "run_b", "class"];

/**
 * Offer the tour on a first visit, unless the link names a run, a recording, a step, an exhibit, two runs, a panel or
 * a class, or a class is open. A lesson link to the tour starts or continues it.
 * @param {Pick<Storage, "getItem" | "setItem"> | null} memory
 */
export function offerTour(memory) {
  storage = memory;
  const stored = read();
  tourState.value = parseState(stored);
  const isRequested = settings.lesson.value === LESSON;
  if (isRequested) openWorkspace();
  const { detail, region } = settings;
  const isPanel = detail.value !== TABLE.detail.initial || region.value !== TABLE.region.initial;
  const isDirected = settings.teach.value || isPanel || PLACES.some((name) => settings[name].value !== null);
  if (!isRequested && (stored === "done" || stored?.startsWith(LEFT) || (stored === null && isDirected))) return;
  const wait = effect(() => {
    if (opening.value || settings.class.value || settings.viewMode.value !== "workspace") return;
    if (connection.value === "live" && own.log.value)
      queueMicrotask(() => (wait(), stop.value === null && continueTour()));
  });
}

/** @param {string | null} stored @returns {typeof tourState.value} */
function parseState(stored) {
  if (stored === "done") return { state: "over", at: 0 };
  const at = Number.parseInt((stored ?? "").replace(LEFT, ""), 10);
  return at >= 0 ? { state: "begun", at: Math.min(STOPS.length - 1, at) } : { state: "new", at: 0 };
}

const openWorkspace = () => batch(() => ([settings.lesson.value, settings.viewMode.value] = [null, "workspace"]));

export function startTour() {
  helpOpen.value = false;
  finished.value = new Set();
  show(0);
}

/** Continue at the stop at which the user left; start over if the tour was completed. */
function continueTour() {
  finished.value = new Set();
  show(tourState.peek().at);
}

/** Open the tour from the list of lessons. */
export function openTour() {
  openWorkspace();
  continueTour();
}

/** Leave the tour at the current stop. */
export function leaveTour() {
  const { state } = tourState.peek();
  store(state === "over" ? "done" : `${LEFT}${at()}`);
  stop.value = null;
}

/** Mark the tour as completed. */
function endTour() {
  stop.value = null;
  store("done");
}

/** Go from the tour's end to the first lesson. */
export function toFirstLesson() {
  endTour();
  batch(() => ([settings.lesson.value, settings.viewMode.value] = [NEXT_LESSON, "lesson"]));
}

const at = () => stop.value ?? 0;
export const next = () => (at() === STOPS.length - 1 ? endTour() : show(at() + 1));
export const back = () => show(Math.max(0, at() - 1));

/** @param {number} index */
function show(index) {
  before = { decodes: decodes(), sequences: sequences() };
  showSubject(STOPS[index].id);
  stop.value = index;
  if (isPhone()) settings.region.value = STOPS[index].region;
  if (tourState.peek().state !== "over") store(String(index));
}

/** Show the subject of a stop: a head with wide attention, or a panel. @param {string} id */
function showSubject(id) {
  const wide = own.log.value && widestHead(own.log.value);
  if (id !== "again") settings.detail.value = "attention";
  else settings.detail.value = "race";
  if (wide && settings.layer.value === null && settings.head.value === null)
    batch(() => ([settings.layer.value, settings.head.value] = [wide.layer, wide.head]));
}

effect(() => {
  if (stop.value === null || STOPS[stop.value].id !== "ask" || !own.numRecords.value) return;
  queueMicrotask(() => showSubject("ask")); // the first records determine the head
});

effect(() => {
  if (stop.value === null) return;
  const { id, done } = STOPS[stop.value];
  if (done() && !finished.peek().has(id)) finished.value = new Set(finished.peek()).add(id);
});

function read() {
  try {
    return storage?.getItem(MEMORY_KEY) ?? null;
  } catch {
    return null;
  }
}

/** @param {string} value */
function store(value) {
  tourState.value = parseState(value);
  try {
    storage?.setItem(MEMORY_KEY, value);
  } catch {
    // not stored in a private window; the next visit offers the tour again
  }
}
