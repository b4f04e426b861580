// What the benchmark page knows: the server's scenarios and records, and the records that were dropped on the page.

import { batch, computed, effect, signal } from "../../vendor/signals/signals.js";
import { link } from "./link.js";
import { parseRecord } from "./record.js";

/**
 * What the server lists: {scenarios, records, can_run, keeps_records}; null until it is here, "failed" when it did
 * not answer.
 */
export const index = signal(null);

/** Records by id: the record, or the reason why it could not be read as {failed}. */
export const loaded = signal(new Map());

/** Records that were dropped on this page: [{id, name, record}]. They stay here. */
export const dropped = signal([]);

/** One sentence that is shown for a while: {text, error} or null. */
export const notice = signal(null);

export const tell = (text, error = false) => (notice.value = { text, error });

/** Read the list again. */
export async function fetchIndex() {
  try {
    const answer = await fetch("/api/bench");
    if (!answer.ok) throw new Error(String(answer.status));
    index.value = await answer.json();
  } catch {
    if (index.value === null) index.value = "failed";
  }
}

const listed = () =>
  index.value && index.value !== "failed"
    ? index.value
    : { scenarios: [], records: [], can_run: false, keeps_records: true };

/** Every scenario of which there is something: those of the server, then those that only a record names. */
export const scenarios = computed(() => {
  const cards = new Map(listed().scenarios.map((card) => [card.id, card]));
  for (const { scenario, title } of listed().records)
    if (!cards.has(scenario)) cards.set(scenario, { id: scenario, title });
  for (const { record } of dropped.value)
    if (!cards.has(record.scenario.id)) cards.set(record.scenario.id, record.scenario);
  return [...cards.values()];
});

/** The records of a scenario that can be chosen: the server's, as it lists them. */
export const recordsOf = (scenario) => listed().records.filter((entry) => entry.scenario === scenario);

/** Whether the server that shows this page can run a scenario: it has a model, and what the scenario needs. */
export function runsHere(scenario) {
  const card = scenarios.value.find((found) => found.id === scenario);
  return Boolean(index.value?.can_run && card && !card.refused);
}

/** Ids of the server's records that are shown of a scenario: those of the link, else the shipped one or the latest. */
export function chosenOf(scenario) {
  const ids = recordsOf(scenario).map((entry) => entry.id);
  const named = link.records.value?.filter((id) => ids.includes(id)) ?? [];
  if (named.length || link.records.value?.includes("none")) return named;
  return dropped.value.some(({ record }) => record.scenario.id === scenario) && !ids.length ? [] : ids.slice(0, 1);
}

/** Show a record of the server, or do not. */
export function choose(scenario, id, wanted) {
  const chosen = chosenOf(scenario).filter((other) => other !== id);
  if (wanted) chosen.push(id);
  const order = recordsOf(scenario).map((entry) => entry.id);
  link.records.value = chosen.length ? chosen.sort((a, b) => order.indexOf(a) - order.indexOf(b)) : ["none"];
}

/**
 * The records shown of a scenario, in order: [{id, entry or null, name or null, record}]; those not here yet are left
 * out.
 */
export function shownOf(scenario) {
  const entries = new Map(recordsOf(scenario).map((entry) => [entry.id, entry]));
  const own = chosenOf(scenario).map((id) => ({
    id,
    entry: entries.get(id),
    name: null,
    record: loaded.value.get(id),
  }));
  const others = dropped.value
    .filter(({ record }) => record.scenario.id === scenario)
    .map((one) => ({ ...one, entry: null }));
  return [...own.filter(({ record }) => record && !record.failed), ...others];
}

/** Fetch the records that are shown and not here. */
export function followChosen() {
  const asked = new Set();
  effect(() => {
    if (!link.scenario.value) return;
    for (const id of chosenOf(link.scenario.value)) {
      if (asked.has(id) || loaded.value.has(id)) continue;
      asked.add(id);
      fetchRecord(id).finally(() => asked.delete(id));
    }
  });
}

async function fetchRecord(id) {
  let found;
  try {
    const answer = await fetch(`/api/bench/records/${encodeURIComponent(id)}`);
    if (!answer.ok) throw new Error(String(answer.status));
    found = parseRecord(await answer.text());
  } catch (error) {
    found = { failed: error.message };
  }
  loaded.value = new Map(loaded.value).set(id, found);
}

let numDropped = 0;

/** Keep a dropped record and show it. */
export function keep(name, record) {
  numDropped += 1;
  batch(() => {
    dropped.value = [...dropped.value, { id: `dropped-${numDropped}`, name, record }];
    goTo(record.scenario.id);
  });
}

export const forget = (id) => (dropped.value = dropped.value.filter((one) => one.id !== id));

/** Look at a scenario; null: at the headlines of all. */
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
 * The step that a point's figure of `metric` names; null when it is no step, and the trace is opened at its first
 * decode step.
 */
export function stepOf(point, metric) {
  const figure = STEPS.has(metric) ? point.figures[metric]?.median : null;
  return Number.isInteger(figure) ? figure : null;
}

/**
 * Where the stage opens the trace of a point, at the step that its figure of `metric` is about; null when none is on
 * this server.
 */
export function traceAddress(entry, point, metric = null) {
  if (!entry || !point.trace || !entry.traces.includes(point.trace)) return null;
  const step = stepOf(point, metric);
  const at = `/api/bench/records/${encodeURIComponent(entry.id)}/traces/${encodeURIComponent(point.trace)}/stage`;
  return step === null ? at : `${at}?step=${step}`;
}
