// One typed table of settings that is also the URL: what a link must carry to show the same thing.

import { batch, effect, signal } from "../../vendor/signals/signals.js";
import { sloOf } from "../core/goodput.js";
import { LANGUAGES } from "../tell/language.js";
import { APPLICATIONS, boundsOf, ENGINE, PROMPT_BOUNDS, SAMPLING } from "./options.js";
import { flag, integer, modelId, number, oneOf, order, text, within, word } from "./setting_types.js";

/**
 * @template T
 * @typedef {import("../../vendor/signals/signals.js").Signal<T>} Signal
 */
/**
 * @typedef {import("../core/wire.js").EngineConfig} EngineConfig
 * @typedef {import("../core/wire.js").SamplingParams} SamplingParams
 */

/** @typedef {import("./setting_types.js").SettingType} SettingType */

/**
 * `remember`: kept on this device too, for the next visit without a link. `place`: says where one looks, and the
 * browser's Back and Forward bring it back. `renamed`: what older links call a value.
 *
 * @typedef {{
 *   type: SettingType, initial: unknown, remember?: boolean, place?: boolean, renamed?: Record<string, string>
 * }} SettingRow
 * @typedef {Record<string, SettingRow>} SettingTable
 */

/**
 * Values of this page's settings; null where the table below says what that means.
 *
 * @typedef {{
 *   lang: string, theme: "auto" | "light" | "dark", theater: string | null, recording: string | null,
 *   model: string | null,
 *   step: number | null, sub: number | null, seq: number | null, layer: number | null, head: number | null,
 *   speed: number, scene: string | null, fault: string | null, priority: number,
 *   distance: "look" | "room" | "bench" | "learn" | "desk",
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

/**
 * Options of a run as settings; null: as the server does it.
 * @param {import("./options.js").OptionRow[]} rows
 * @returns {SettingTable}
 */
function optionRows(rows) {
  /** @param {import("./options.js").OptionRow} row */
  const typeOf = (row) => {
    const { kind, choices, control } = row;
    if (kind === "choice") return oneOf(...(choices ?? []), ...(control.none_as ? [`${control.none_as}`] : []));
    const isNumber = kind === "integer" || kind === "number";
    return isNumber ? within(TYPES[kind], boundsOf(row), control.none_as) : TYPES[kind];
  };
  return Object.fromEntries(rows.map((row) => [row.name, { type: typeOf(row), initial: row.control.initial ?? null }]));
}

const preferred = () => {
  const wanted = globalThis.navigator?.language?.toLowerCase() ?? "";
  return LANGUAGES.find((one) => wanted.startsWith(one.code))?.code ?? "en";
};

/** @type {SettingTable} */
export const TABLE = {
  lang: { type: oneOf(...LANGUAGES.map((one) => one.code)), initial: preferred(), remember: true },
  theme: { type: oneOf("auto", "light", "dark"), initial: "auto", remember: true },
  theater: { type: text, initial: null },
  recording: { type: text, initial: null },
  class: { type: text, initial: null }, // that this page is in
  teach: { type: flag, initial: false }, // a class is wanted as soon as there is a run
  model: { type: text, initial: null }, // of the server's models the one that runs are on; null = its first
  step: { type: integer, initial: null, place: true }, // record shown; null = the newest
  sub: { type: integer, initial: null, place: true }, // as far as which sub-step it is shown; null = whole
  seq: { type: integer, initial: null, place: true }, // sequence on stage; null = follow the batch
  layer: { type: integer, initial: null, place: true }, // null = the one that the model is best explained with
  head: { type: integer, initial: null, place: true },
  speed: { type: number, initial: 4 }, // steps a second, of the engine and of playing; 0 = as fast as it goes
  ...optionRows(ENGINE),
  scene: { type: text, initial: null }, // whose prompts the run has; null = the reader's own
  fault: { type: text, initial: null }, // a mistake put into the engine on purpose; null = none
  priority: { type: within(integer, PROMPT_BOUNDS.priority), initial: 0 }, // of the prompts to come; lower is first
  after: { type: within(integer, PROMPT_BOUNDS.after), initial: 0 }, // steps that a prompt waits outside
  ...optionRows(SAMPLING),
  // how far one looks from: one picture and sentence; stage and pool, for a room or a lesson; everything; a presenter's
  distance: { type: oneOf("look", "room", "bench", "learn", "desk"), initial: "bench", place: true },
  lesson: { type: text, initial: null, place: true }, // null: the list of them
  film: { type: integer, initial: null, place: true }, // part of the opening that a class is shown; null = none is
  region: {
    type: oneOf("stage", "setup", "memory", "detail"),
    initial: "stage",
    place: true,
    renamed: { score: "setup" },
  }, // phone: the region shown
  // panel of the detail region: page/detail_panels.js has them
  detail: { type: word, initial: "attention", place: true },
  exhibit: { type: text, initial: null, place: true }, // of the museum panel: the fault that is on show
  // of the compare panel: a theater or recording; null = the run on stage
  run_a: { type: text, initial: null, place: true },
  run_b: { type: text, initial: null, place: true },
  // of the requests panel: what their names are searched for; the column that orders them, a minus before it:
  // downwards; which of them (core/requests.js), and whose
  find: { type: text, initial: null },
  sort: { type: order, initial: null },
  only: { type: oneOf("preempted", "missed"), initial: null },
  client: { type: text, initial: null },
  // the objective that they are held to: an application, or milliseconds
  slo: { type: { parse: (value) => (sloOf(value, APPLICATIONS) ? value : undefined), write: String }, initial: "chat" },
  // of the memory region: the model that the live tokens are counted as
  as_model: { type: modelId, initial: "llama-2-7b" },
  lanes: { type: oneOf("strategies", "caches", "drafts", "models"), initial: "strategies", place: true },
  // of the time panel
  chart: { type: oneOf("latency", "sequences", "memory", "roofline", "flow"), initial: "latency", place: true },
  overview: { type: oneOf("matrix", "row"), initial: "matrix" }, // what each small picture of a layer and head shows
  answer: { type: oneOf("candidates", "softmax", "output"), initial: "candidates" }, // beside the heads
  detail_large: { type: flag, initial: false }, // the detail region takes most of the stage's room
  select: { type: text, initial: null, place: true }, // what is held, as state/selection.js writes it
  telling: { type: oneOf("plain", "expert"), initial: "plain", remember: true }, // whom sentences are for
  motion: { type: flag, initial: true },
};

const MEMORY_KEY = "kvtheater";

/** Every setting as a signal, by name. */
export const settings = /** @type {Settings} */ (
  Object.fromEntries(Object.entries(TABLE).map(([name, row]) => [name, signal(row.initial)]))
);

/**
 * An option of a run as the page's setting: its row's kind says what it is.
 *
 * @param {string} name
 */
export const optionSetting = (name) =>
  /** @type {Signal<OptionValue>} */ (/** @type {Record<string, unknown>} */ (settings)[name]);

/**
 * The settings of a query string, by name; unknown names and values that do not parse are left out.
 *
 * @param {string} query
 */
export function parseQuery(query, table = TABLE) {
  /** @type {Record<string, unknown>} */
  const found = {};
  for (const [name, value] of new URLSearchParams(query)) {
    const row = table[name];
    const parsed = row?.type.parse(row.renamed?.[value] ?? value);
    if (parsed !== undefined) found[name] = parsed;
  }
  return found;
}

/**
 * The query string of settings that differ from their initial values.
 *
 * @param {Record<string, unknown>} values
 */
export function writeQuery(values, table = TABLE) {
  const query = new URLSearchParams();
  for (const [name, row] of Object.entries(table)) {
    const value = values[name];
    if (value !== null && value !== undefined && value !== row.initial) query.set(name, row.type.write(value));
  }
  return query.toString();
}

/**
 * The settings of an address: its query, and its hash (`#step=12`), which wins.
 * @param {{search: string, hash: string}} location
 */
export function parseAddress(location, table = TABLE) {
  return { ...parseQuery(location.search, table), ...parseQuery(location.hash.slice(1), table) };
}

const WRITE_DELAY = 150; // ms without a change before the address follows
let writeNow = () => {};
let enterNew = false;

/** The next change of the address is a new entry of the browser's history: Back comes back to where one is now. */
export function markPlace() {
  writeNow();
  enterNew = true;
}

/**
 * Read this device's memory, then the address; from then on write both back as settings change. `table` and its
 * `signals` are another page's, where it has its own.
 *
 * @param {{search: string, hash: string, pathname: string}} location
 * @param {Pick<History, "pushState" | "replaceState">} history
 * @param {Pick<Storage, "getItem" | "setItem"> | null} storage null: a visit is not remembered
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
    // unreadable memory is no memory
  }
  for (const [name, row] of Object.entries(table)) {
    const kept = row.remember ? row.type.parse(String(remembered[name] ?? "")) : undefined;
    if (kept !== undefined) signals[name].value = kept;
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
      const anchor = location.hash.includes("=") ? "" : location.hash; // a place on the page, no settings
      history[enterNew ? "pushState" : "replaceState"](null, "", (query ? `?${query}` : location.pathname) + anchor);
    } catch {
      // a page inside a frame of another page, as in a notebook, has no address of its own
    }
    enterNew = false;
    const keep = Object.fromEntries(
      Object.keys(table)
        .filter((n) => table[n].remember)
        .map((n) => [n, values[n]]),
    );
    try {
      storage?.setItem(MEMORY_KEY, JSON.stringify(keep));
    } catch {
      // private windows may refuse; the link still carries everything
    }
  };
  effect(() => {
    values = Object.fromEntries(Object.entries(signals).map(([name, s]) => [name, s.value]));
    clearTimeout(timer);
    timer = setTimeout(writeNow, enterNew ? 0 : WRITE_DELAY); // Back may be pressed right after a jump
  });
}

/**
 * Look again where an address of the history looked; the run and its settings stay what they are.
 *
 * @param {Record<string, unknown>} found
 * @param {SettingTable} table
 * @param {Record<string, Signal<unknown>>} signals
 */
function returnTo(found, table, signals) {
  enterNew = false;
  batch(() => {
    for (const [name, row] of Object.entries(table)) if (row.place) signals[name].value = found[name] ?? row.initial;
  });
}
