// Typed table of the settings, which the URL contains: a link shows the same view.

import { batch, effect, signal } from "../../vendor/signals/signals.js";
import { sloOf } from "../core/goodput.js";
import { LANGUAGES } from "../i18n/language.js";
import { APPLICATIONS, boundsOf, ENGINE, PROMPT_BOUNDS, SAMPLING } from "./options.js";
import { flag, integer, modelId, number, oneOf, order, spelled, text, within, word } from "./setting_types.js";

/** @import {Signal} from "../../vendor/signals/signals.js" */
/** @import {EngineConfig, SamplingParams} from "../core/wire.js" */
/** @import {OptionRow} from "./options.js" */
/** @import {SettingType} from "./setting_types.js" */

/**
 * `remember`: also stored on this device, for the next visit without a link. `place`: part of the view, restored by the
 * browser's Back and Forward. `renamed`: values in older links and their current names. `link`: its name in a
 * link.
 *
 * @typedef {{
 *   type: SettingType, initial: unknown, remember?: boolean, place?: boolean, renamed?: Record<string, string>,
 *   link?: string,
 * }} SettingRow
 * @typedef {Record<string, SettingRow>} SettingTable
 */

/**
 * Values of this page's settings; the table below defines the meaning of null.
 *
 * @typedef {{
 *   lang: string, theme: "auto" | "light" | "dark", theater: string | null, recording: string | null,
 *   model: string | null,
 *   step: number | null, sub: number | null, seq: number | null, layer: number | null, head: number | null,
 *   speed: number, scene: string | null, fault: string | null, priority: number,
 *   viewMode: "intro" | "present" | "workspace" | "lesson" | "teacher",
 *   region: "stage" | "setup" | "memory" | "detail", detail: string, exhibit: string | null,
 *   run_a: string | null, run_b: string | null,
 *   chart: "latency" | "sequences" | "memory" | "roofline" | "flow", overview: "matrix" | "row",
 *   answer: "candidates" | "softmax" | "output", detail_large: boolean, select: string | null,
 *   telling: "plain" | "expert",
 *   motion: boolean, slo: string, after: number,
 *   lanes: "strategies" | "caches" | "drafts" | "models", as_model: string, find: string | null, sort: string | null,
 *   only: "preempted" | "missed" | null, client: string | null, lesson: string | null, film: number | null,
 *   class: string | null, teach: boolean,
 * }} OwnValues
 * @typedef {{[K in Exclude<keyof EngineConfig, keyof OwnValues>]: EngineConfig[K] | null}} EngineValues
 * @typedef {SamplingParams} Params
 * @typedef {{[K in keyof Params]: Params[K] extends unknown[] ? string : Params[K]}} SamplingValues
 * @typedef {string | number | boolean | null} OptionValue of an option of a run
 * @typedef {OwnValues & EngineValues & SamplingValues} SettingValues
 * @typedef {{[K in keyof SettingValues]: Signal<SettingValues[K]>}} Settings
 */

/** @type {Record<string, SettingType>} */
const TYPES = { integer, number, switch: flag, text, list: text };

/** Return the settings of run options; null: the server's default. @param {OptionRow[]} rows @returns {SettingTable} */
function optionRows(rows) {
  /** @param {OptionRow} row */
  const typeOf = (row) => {
    const { kind, choices, control } = row;
    if (kind === "choice") return oneOf(...(choices ?? []), ...(control.none_as ? [`${control.none_as}`] : []));
    const isNumber = kind === "integer" || kind === "number";
    return isNumber ? within(TYPES[kind], boundsOf(row), control.none_as) : TYPES[kind];
  };
  return Object.fromEntries(rows.map((row) => [row.name, { type: typeOf(row), initial: row.control.initial ?? null }]));
}

const initialLanguage = () => {
  const browserLanguage = globalThis.navigator?.language?.toLowerCase() ?? "";
  return LANGUAGES.find((one) => browserLanguage.startsWith(one.code))?.code ?? "en";
};

/** @type {SettingTable} */
export const TABLE = {
  lang: { type: oneOf(...LANGUAGES.map((one) => one.code)), initial: initialLanguage(), remember: true },
  theme: { type: oneOf("auto", "light", "dark"), initial: "auto", remember: true },
  theater: { type: text, initial: null },
  recording: { type: text, initial: null },
  class: { type: text, initial: null }, // id of the class this page is in
  teach: { type: flag, initial: false }, // open a class as soon as there is a run
  model: { type: text, initial: null }, // server model for new runs; null = its first
  step: { type: integer, initial: null, place: true }, // displayed record; null = the newest
  sub: { type: integer, initial: null, place: true }, // sub-step up to which it is shown; null = complete
  seq: { type: integer, initial: null, place: true }, // sequence on stage; null = follow the batch
  layer: { type: integer, initial: null, place: true }, // null = the default head (core/teaching.js)
  head: { type: integer, initial: null, place: true },
  speed: { type: number, initial: 4 }, // steps per second of the engine and of playback; 0 = unlimited
  ...optionRows(ENGINE),
  scene: { type: text, initial: null }, // scene with the run's prompts; null = the user's prompts
  fault: { type: text, initial: null }, // fault injected into the engine; null = none
  priority: { type: within(integer, PROMPT_BOUNDS.priority), initial: 0 }, // of new prompts; lower is scheduled first
  after: { type: within(integer, PROMPT_BOUNDS.after), initial: 0 }, // steps before a prompt is submitted
  ...optionRows(SAMPLING),
  viewMode: {
    link: "distance", // links of all versions have this name and these values
    type: spelled({ intro: "look", present: "room", workspace: "bench", lesson: "learn", teacher: "desk" }),
    initial: "workspace",
    place: true,
  },
  lesson: { type: text, initial: null, place: true }, // null: the list of lessons
  film: { type: integer, initial: null, place: true }, // part of the opening film shown to a class; null = none
  region: {
    type: oneOf("stage", "setup", "memory", "detail"),
    initial: "stage",
    place: true,
    renamed: { score: "setup" },
  }, // on a phone: the visible region
  // panel of the detail region, listed in page/detail_panels.js
  detail: { type: word, initial: "attention", place: true },
  exhibit: { type: text, initial: null, place: true }, // museum panel: the shown fault
  // compare panel: a session or recording; null = the run on stage
  run_a: { type: text, initial: null, place: true },
  run_b: { type: text, initial: null, place: true },
  // requests panel: search text; sort column, descending with a leading minus; filter (core/requests.js); client
  find: { type: text, initial: null },
  sort: { type: order, initial: null },
  only: { type: oneOf("preempted", "missed"), initial: null },
  client: { type: text, initial: null },
  // objective of requests: an application, or milliseconds
  slo: { type: { parse: (value) => (sloOf(value, APPLICATIONS) ? value : undefined), write: String }, initial: "chat" },
  // memory region: the model as which the live tokens are counted
  as_model: { type: modelId, initial: "llama-2-7b" },
  lanes: { type: oneOf("strategies", "caches", "drafts", "models"), initial: "strategies", place: true },
  // time panel
  chart: { type: oneOf("latency", "sequences", "memory", "roofline", "flow"), initial: "latency", place: true },
  overview: { type: oneOf("matrix", "row"), initial: "matrix" }, // content of each thumbnail of a layer and head
  answer: { type: oneOf("candidates", "softmax", "output"), initial: "candidates" }, // shown beside the heads
  detail_large: { type: flag, initial: false }, // the detail region takes most of the stage's space
  select: { type: text, initial: null, place: true }, // pinned selection, in the text form of state/selection.js
  telling: { type: oneOf("plain", "expert"), initial: "plain", remember: true }, // audience of the sentences
  motion: { type: flag, initial: true },
};

const MEMORY_KEY = "kvtheater";

/** All settings as signals, by name. */
export const settings = /** @type {Settings} */ (
  Object.fromEntries(Object.entries(TABLE).map(([name, row]) => [name, signal(row.initial)]))
);

/** Return the setting of a run option; the `kind` of its row defines the type. @param {string} name */
export const optionSetting = (name) =>
  /** @type {Signal<OptionValue>} */ (/** @type {Record<string, unknown>} */ (settings)[name]);

/** Parse the settings of a query string; unknown names and invalid values are ignored. @param {string} query */
export function parseQuery(query, table = TABLE) {
  /** @type {Record<string, unknown>} */
  const found = {};
  const names = new Map(Object.entries(table).map(([name, row]) => [row.link ?? name, name]));
  for (const [written, value] of new URLSearchParams(query)) {
    const name = names.get(written);
    if (name === undefined) continue;
    const row = table[name];
    const parsed = row.type.parse(row.renamed?.[value] ?? value);
    if (parsed !== undefined) found[name] = parsed;
  }
  return found;
}

/**
 * Return the query string of the settings that differ from their initial values.
 * @param {Record<string, unknown>} values
 */
export function writeQuery(values, table = TABLE) {
  const query = new URLSearchParams();
  for (const [name, row] of Object.entries(table)) {
    const value = values[name];
    if (value !== null && value !== undefined && value !== row.initial)
      query.set(row.link ?? name, row.type.write(value));
  }
  return query.toString();
}

/**
 * Parse the settings of an address: its query, and its hash (`#step=12`), which takes precedence.
 * @param {{search: string, hash: string}} location
 */
export function parseAddress(location, table = TABLE) {
  return { ...parseQuery(location.search, table), ...parseQuery(location.hash.slice(1), table) };
}

const WRITE_DELAY = 150; // ms without a change before the address is updated
let writeNow = () => {};
let pushNext = false; // whether the next change is a new history entry

/** Push the next change of the address as a new history entry, so that Back returns to the current view. */
export function markPlace() {
  writeNow();
  pushNext = true;
}

/**
 * Open a view, so that Back returns to the current one.
 * @param {string} viewMode
 * @param {Record<string, unknown>} [more] other settings by name
 */
export function openView(viewMode, more = {}) {
  const all = /** @type {Record<string, Signal<unknown>>} */ (settings);
  markPlace();
  batch(() => {
    for (const [name, value] of Object.entries({ ...more, viewMode })) all[name].value = value;
  });
}

/**
 * Read the settings from this device's storage, then from the address; then write changes to both. Other pages pass
 * their own `table` and `signals`.
 * @param {{search: string, hash: string, pathname: string}} location
 * @param {Pick<History, "pushState" | "replaceState">} history
 * @param {Pick<Storage, "getItem" | "setItem"> | null} storage null: nothing is stored
 * @param {{addEventListener?: (name: "popstate", listener: () => void) => void}} [events]
 * @param {SettingTable} [table]
 * @param {Record<string, Signal<unknown>>} [signals]
 */
export function connectSettings(location, history, storage, events = globalThis, table = TABLE, signals = settings) {
  /** @type {Record<string, unknown>} */
  let remembered = {};
  try {
    remembered = JSON.parse(storage?.getItem(MEMORY_KEY) ?? "{}");
  } catch {
    // unreadable storage counts as empty
  }
  for (const [name, row] of Object.entries(table)) {
    const stored = row.remember ? row.type.parse(String(remembered[name] ?? "")) : undefined;
    if (stored !== undefined) signals[name].value = stored;
  }
  for (const [name, value] of Object.entries(parseAddress(location, table))) signals[name].value = value;
  events.addEventListener?.("popstate", () => returnTo(parseAddress(location, table), table, signals));
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  /** @type {Record<string, unknown>} */
  let values = {};
  writeNow = () => {
    clearTimeout(timer);
    const query = writeQuery(values, table);
    try {
      const anchor = location.hash.includes("=") ? "" : location.hash; // an anchor of the page, not settings
      history[pushNext ? "pushState" : "replaceState"](null, "", (query ? `?${query}` : location.pathname) + anchor);
    } catch {
      // a page in a frame, such as in a notebook, cannot change its address
    }
    pushNext = false;
    const stored = Object.fromEntries(
      Object.keys(table)
        .filter((n) => table[n].remember)
        .map((n) => [n, values[n]]),
    );
    try {
      storage?.setItem(MEMORY_KEY, JSON.stringify(stored));
    } catch {
      // storage may be refused in a private window; the link has all settings
    }
  };
  effect(() => {
    values = Object.fromEntries(Object.entries(signals).map(([name, s]) => [name, s.value]));
    if (pushNext) return writeNow(); // before the page is drawn, as Back may be pressed right after a jump
    clearTimeout(timer);
    timer = setTimeout(writeNow, WRITE_DELAY);
  });
}

/**
 * Restore the view settings of a history entry; the run and its settings stay unchanged.
 * @param {Record<string, unknown>} found
 * @param {SettingTable} table
 * @param {Record<string, Signal<unknown>>} signals
 */
function returnTo(found, table, signals) {
  pushNext = false;
  batch(() => {
    for (const [name, row] of Object.entries(table)) if (row.place) signals[name].value = found[name] ?? row.initial;
  });
}
