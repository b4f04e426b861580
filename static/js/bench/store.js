// State of the benchmark page: the server's scenarios and records, and records dropped on the page.

import { batch, computed, effect, signal } from "../../vendor/signals/signals.js";
import { link } from "./link.js";
import { parseRecord } from "./parse.js";

/** @import {BenchAnswer, BenchRecord} from "../core/bench.js" */
/** @import {Point} from "./record.js" */

/**
 * @typedef {BenchAnswer["records"][number]} Listed list entry of a record of the server
 * @typedef {{en: string, zh: string}} Text
 *
 * Title and description of a scenario.
 * @typedef {{id: string, title: Text, text?: Text, refused?: Text | null}} Card
 *
 * Shown record: one of the server with its list entry, or a dropped one with its file name.
 * @typedef {{id: string, entry: Listed | null, name: string | null, record: BenchRecord}} Shown
 */

/** The server's list; null until it has arrived, "failed" if the request failed. */
export const index = signal(/** @type {BenchAnswer | "failed" | null} */ (null));

/** Loaded records of the server by id, or why loading failed. */
export const loaded = signal(/** @type {Map<string, {record: BenchRecord} | {failed: string}>} */ (new Map()));

/** Records dropped on this page. They are not uploaded. */
export const dropped = signal(/** @type {{id: string, name: string, record: BenchRecord}[]} */ ([]));

/** Message that is displayed for some seconds, or null. */
export const notice = signal(/** @type {{text: string, error: boolean} | null} */ (null));

const DISMISS_MS = 8000; // an error stays until it is dismissed

/** @param {string} text @param {boolean} error */
export function notify(text, error = false) {
  const current = { text, error };
  notice.value = current;
  if (!error) setTimeout(() => notice.value === current && (notice.value = null), DISMISS_MS);
}

/** Fetch the server's list. */
export async function fetchIndex() {
  try {
    const answer = await fetch("api/bench");
    if (!answer.ok) throw new Error(String(answer.status));
    index.value = await answer.json();
  } catch {
    if (index.value === null) index.value = "failed";
  }
}

/** @type {BenchAnswer} */
const NOTHING = { scenarios: [], records: [], can_run: false, keeps_records: true, code: "" };

/** Return the server's list; an empty one if it is not loaded. */
export const listed = () => (index.value && index.value !== "failed" ? index.value : NOTHING);

/** All scenarios: those of the server, then those that only a record names. */
export const scenarios = computed(() => {
  /** @type {Map<string, Card>} */
  const cards = new Map(listed().scenarios.map((card) => [card.id, card]));
  for (const { scenario, title } of listed().records)
    if (!cards.has(scenario)) cards.set(scenario, { id: scenario, title });
  for (const { record } of dropped.value)
    if (!cards.has(record.scenario.id)) cards.set(record.scenario.id, record.scenario);
  return [...cards.values()];
});

/** Return the server's records of a scenario, in the order of its list. @param {string} scenario */
export const recordsOf = (scenario) => listed().records.filter((entry) => entry.scenario === scenario);

/**
 * Return whether this page's server can run a scenario: it has a model and meets the scenario's requirements.
 * @param {string} scenario
 */
export function canRun(scenario) {
  const card = scenarios.value.find((found) => found.id === scenario);
  return Boolean(listed().can_run && card && !card.refused);
}

/**
 * Return the ids of the shown records of a scenario: those of the link, else the bundled one or the latest.
 * @param {string} scenario
 * @returns {string[]}
 */
export function chosenOf(scenario) {
  const ids = recordsOf(scenario).map((entry) => entry.id);
  const named = link.records.value?.filter((id) => ids.includes(id)) ?? [];
  if (named.length || link.records.value?.includes("none")) return named;
  return dropped.value.some(({ record }) => record.scenario.id === scenario) && !ids.length ? [] : ids.slice(0, 1);
}

/** Show or hide a record of the server. @param {string} scenario @param {string} id @param {boolean} isShown */
export function choose(scenario, id, isShown) {
  const chosen = chosenOf(scenario).filter((other) => other !== id);
  if (isShown) chosen.push(id);
  const order = recordsOf(scenario).map((entry) => entry.id);
  link.records.value = chosen.length ? chosen.sort((a, b) => order.indexOf(a) - order.indexOf(b)) : ["none"];
}

/** Return the shown records of a scenario that are loaded, in order. @param {string} scenario @returns {Shown[]} */
export function shownOf(scenario) {
  const entries = new Map(recordsOf(scenario).map((entry) => [entry.id, entry]));
  const own = chosenOf(scenario).flatMap((id) => {
    const found = loaded.value.get(id);
    return found && "record" in found ? [{ id, entry: entries.get(id) ?? null, name: null, record: found.record }] : [];
  });
  const others = dropped.value.filter(({ record }) => record.scenario.id === scenario);
  return [...own, ...others.map((one) => ({ ...one, entry: null }))];
}

/** Return why shown records of a scenario could not be loaded. @param {string} scenario */
export const failedOf = (scenario) =>
  chosenOf(scenario).flatMap((id) => {
    const found = loaded.value.get(id);
    return found && "failed" in found ? [found.failed] : [];
  });

/** Fetch the shown records that are not loaded. */
export function followChosen() {
  const requested = new Set();
  effect(() => {
    if (!link.scenario.value) return;
    for (const id of chosenOf(link.scenario.value)) {
      if (requested.has(id) || loaded.value.has(id)) continue;
      requested.add(id);
      fetchRecord(id).finally(() => requested.delete(id));
    }
  });
}

/** @param {string} id */
async function fetchRecord(id) {
  let found;
  try {
    const answer = await fetch(`api/bench/records/${encodeURIComponent(id)}`);
    if (!answer.ok) throw new Error(String(answer.status));
    found = { record: parseRecord(await answer.text()) };
  } catch (error) {
    found = { failed: error instanceof Error ? error.message : String(error) };
  }
  loaded.value = new Map(loaded.value).set(id, found);
}

let numDropped = 0;

/** Add a dropped record and show it. @param {string} name name of its file @param {BenchRecord} record */
export function addDropped(name, record) {
  numDropped += 1;
  batch(() => {
    dropped.value = [...dropped.value, { id: `dropped-${numDropped}`, name, record }];
    goTo(record.scenario.id);
  });
}

/** @param {string} id of a dropped record */
export const removeDropped = (id) => (dropped.value = dropped.value.filter((one) => one.id !== id));

/** Go to a scenario, or with null to all headlines. @param {string | null} scenario */
export function goTo(scenario) {
  if (link.scenario.value === scenario) return;
  batch(() => {
    link.scenario.value = scenario;
    link.metric.value = link.against.value = link.records.value = null;
  });
}

/** Metrics whose figure is itself a step of the run. */
const STEPS = new Set(["refused_at_step"]);

/**
 * Return the step that is a point's figure of `metric`; null if the figure is not a step, and the trace opens at
 * its first decode step.
 * @param {Point} point
 * @param {string | null} metric
 * @returns {number | null}
 */
export function stepOf(point, metric) {
  const figure = metric !== null && STEPS.has(metric) ? point.figures[metric]?.median : undefined;
  return figure !== undefined && Number.isInteger(figure) ? figure : null;
}

/**
 * Return the address of the stage with the trace of a point, at the step of its figure of `metric`; null if the trace
 * is not on this server.
 * @param {Listed | null} entry
 * @param {Point} point
 * @param {string | null} metric
 */
export function traceAddress(entry, point, metric = null) {
  if (!entry || !point.trace || !entry.traces.includes(point.trace)) return null;
  const step = stepOf(point, metric);
  const at = `api/bench/records/${encodeURIComponent(entry.id)}/traces/${encodeURIComponent(point.trace)}/stage`;
  return step === null ? at : `${at}?step=${step}`;
}
