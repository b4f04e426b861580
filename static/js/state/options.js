// The table of options as the server has it (engine/options): what can be set for a run, its values and ranges, and how
// the page offers it. It stands in the page's HTML, in a page of one file too; other pages have none.

/**
 * @typedef {import("../core/wire.js").Control} Control what the page offers for an option
 * @typedef {import("../core/wire.js").OptionFacts & {control: Control}} OptionRow a row that the page offers
 */

const element = globalThis.document?.getElementById("options") ?? null;
/**
 * What stands in the page: rows of options, models of other sizes (state/presets.js), objectives of applications.
 * @type {Record<"engine" | "sampling", import("../core/wire.js").OptionFacts[]> &
 *   {models?: import("./presets.js").ModelPreset[], slos?: Record<string, import("../core/goodput.js").Slo>}}
 */
export const tables = element?.textContent ? JSON.parse(element.textContent) : { engine: [], sampling: [] };
/** Service level objectives that applications ask for (engine/trace/applications.toml), by name. */
export const APPLICATIONS = tables.slos ?? {};

/**
 * What a number may be: from `min` or over `over` on, up to `max`.
 *
 * @typedef {{min?: number | null, over?: number | null, max?: number | null, whole?: boolean}} Bounds
 */

/**
 * The bounds of an option that is a number.
 *
 * @param {Pick<import("../core/wire.js").OptionFacts, "kind" | "ge" | "gt" | "le">} row
 * @returns {Bounds}
 */
export const boundsOf = ({ kind, ge, gt, le }) => ({ min: ge, over: gt, max: le, whole: kind === "integer" });

/**
 * Whether a number is within bounds.
 *
 * @param {number} n
 * @param {Bounds} bounds
 */
export const fits = (n, { min, over, max, whole }) =>
  Number.isFinite(n) &&
  (!whole || Number.isSafeInteger(n)) &&
  n >= (min ?? Number.NEGATIVE_INFINITY) &&
  n > (over ?? Number.NEGATIVE_INFINITY) &&
  n <= (max ?? Number.POSITIVE_INFINITY);

/** Of what is set for a prompt. @type {Record<"after" | "priority", Bounds>} */
export const PROMPT_BOUNDS = { after: { min: 0, max: 10_000, whole: true }, priority: { whole: true } };

/** @param {import("../core/wire.js").OptionFacts[]} rows */
const offered = (rows) => /** @type {OptionRow[]} */ (rows.filter((row) => row.control));

/** Rows of EngineConfig and of SamplingParams that the page offers, in the struct's order. */
export const ENGINE = offered(tables.engine);
export const SAMPLING = offered(tables.sampling);

/**
 * Rows of both by name.
 * @type {Record<string, OptionRow>}
 */
export const ROWS = Object.fromEntries([...ENGINE, ...SAMPLING].map((row) => [row.name, row]));

/**
 * Rows that the page sets for every run. The others are null until a person chooses; then the server's default holds.
 */
export const LAYOUT = ENGINE.filter((row) => row.control.initial !== undefined);

/**
 * The values of a choice.
 * @param {string} name
 * @returns {string[]}
 */
export const choicesOf = (name) => ROWS[name]?.choices ?? [];

/**
 * The values of a choice that its control has.
 * @param {string} name
 * @returns {string[]}
 */
export const offeredOf = (name) => ROWS[name]?.control.offered ?? choicesOf(name);

/**
 * Rows of a group of controls, switches last.
 * @param {Control["group"]} group
 */
export const rowsOf = (group) => {
  const rows = Object.values(ROWS).filter((row) => row.control.group === group);
  return [...rows.filter((row) => row.kind !== "switch"), ...rows.filter((row) => row.kind === "switch")];
};
