// Table of run options from the server (engine/options): names, values, ranges and controls. It is embedded in the
// page's HTML, including single-file pages; other pages have none.

/** @import {Control, OptionFacts} from "../core/wire.js" */

/** @typedef {OptionFacts & {control: Control}} OptionRow row of an option that the page offers */

const element = globalThis.document?.getElementById("options") ?? null;
/**
 * Embedded tables: option rows, models of other sizes, objectives of applications; for the page /scale, bounds of its
 * numbers, by section.
 * @type {Record<"engine" | "sampling", OptionFacts[]> &
 *   {models?: ModelPreset[], slos?: Record<string, import("../core/goodput.js").Slo>,
 *   scale?: Record<string, Record<string, Bounds>>}}
 */
export const tables = { engine: [], sampling: [], ...(element?.textContent ? JSON.parse(element.textContent) : {}) };
/** Service level objectives of applications (engine/trace/applications.toml), by name. */
export const APPLICATIONS = tables.slos ?? {};

/**
 * Bounds of a number: at least `min`, more than `over`, at most `max`.
 *
 * @typedef {{min?: number | null, over?: number | null, max?: number | null, whole?: boolean}} Bounds
 */

/**
 * Return the bounds of an option that is a number.
 * @param {Pick<OptionFacts, "kind" | "ge" | "gt" | "le">} row
 * @returns {Bounds}
 */
export const boundsOf = ({ kind, ge, gt, le }) => ({ min: ge, over: gt, max: le, whole: kind === "integer" });

/** Return whether a number is within bounds. @param {number} n @param {Bounds} bounds */
export const fits = (n, { min, over, max, whole }) =>
  Number.isFinite(n) &&
  (!whole || Number.isSafeInteger(n)) &&
  n >= (min ?? Number.NEGATIVE_INFINITY) &&
  n > (over ?? Number.NEGATIVE_INFINITY) &&
  n <= (max ?? Number.POSITIVE_INFINITY);

/** Bounds of a prompt's settings. @type {Record<"after" | "priority", Bounds>} */
export const PROMPT_BOUNDS = { after: { min: 0, max: 10_000, whole: true }, priority: { whole: true } };

/** @param {OptionFacts[]} rows */
const offered = (rows) => /** @type {OptionRow[]} */ (rows.filter((row) => row.control));

/** Rows of EngineConfig and SamplingParams that the page offers, in the struct's order. */
export const ENGINE = offered(tables.engine);
export const SAMPLING = offered(tables.sampling);

/** Rows of both tables by name. @type {Record<string, OptionRow>} */
export const ROWS = Object.fromEntries([...ENGINE, ...SAMPLING].map((row) => [row.name, row]));

/**
 * Rows that the page sets for every run. The others are null until the user chooses a value; until then the server's
 * default applies.
 */
export const LAYOUT = ENGINE.filter((row) => row.control.initial !== undefined);

/** Return the values of a choice. @param {string} name @returns {string[]} */
const choicesOf = (name) => ROWS[name]?.choices ?? [];

/** Return the values of a choice that its control offers. @param {string} name @returns {string[]} */
export const offeredOf = (name) => ROWS[name]?.control.offered ?? choicesOf(name);

/** Return the rows of a control group, switches last. @param {Control["group"]} group */
export const rowsOf = (group) => {
  const rows = Object.values(ROWS).filter((row) => row.control.group === group);
  return [...rows.filter((row) => row.kind !== "switch"), ...rows.filter((row) => row.kind === "switch")];
};

// Models of other sizes (engine/accounting/models.toml), for estimating the run's memory with one of them. They are
// embedded in the page's HTML, including single-file pages.

/**
 * Model. `latent_dim`: width of MLA's latent vector, which replaces K and V of heads if not 0; `dated`: ISO 8601.
 * @typedef {{
 *   id: string, name: string, num_layers: number, num_kv_heads: number, head_dim: number, latent_dim: number,
 *   element_bytes: number, kv_bytes_per_token: number, source: string, dated: string | null, weights_bytes: number,
 *   fit: {card: string, gpus: number, tokens: number} | null
 * }} ModelPreset
 */

/** @type {ModelPreset[]} */
export const PRESETS = tables.models ?? [];

/** Return the factors whose product is the bytes of a token's K and V. @param {ModelPreset} preset */
export const factorsOf = ({ num_layers, num_kv_heads, head_dim, latent_dim, element_bytes }) =>
  latent_dim ? [num_layers, latent_dim, element_bytes] : [2, num_layers, num_kv_heads, head_dim, element_bytes];
