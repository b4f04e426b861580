// The table of options as the server has it (engine/options): what can be set for a run, its values and ranges, and how
// the page offers it. It stands in the page's HTML, in a page of one file too; other pages have none.

/**
 * What the page offers for an option: `Control` of engine/options/option.py.
 * @typedef {object} Control
 * @property {"cache" | "scheduler" | "sampling"} group
 * @property {number[]} [usual] numbers offered in a select
 * @property {number} [step] of a number field; 1 without one
 * @property {string | number | boolean} [initial] what the page asks for in every new run
 * @property {number} [none_as] the number that stands for null in the control and in links
 * @property {string} [term] the glossary's entry behind the label
 */
/**
 * A row of the table: `OptionFacts` of engine/options/payload.py.
 * @typedef {object} OptionRow
 * @property {string} name
 * @property {"choice" | "switch" | "integer" | "number" | "text" | "list" | "map"} kind
 * @property {unknown} default
 * @property {boolean} [optional] null is a value
 * @property {string[]} [choices]
 * @property {number} [ge]
 * @property {number} [gt]
 * @property {number} [le]
 * @property {string[]} [strategies] under which it can be chosen
 * @property {string[]} [derived_under] strategies whose runs have another value than was asked for
 * @property {string} [beside] the option that it needs
 * @property {boolean} [may_change] while a request runs
 * @property {Control} control of the rows that the page offers
 */

const element = globalThis.document?.getElementById("options") ?? null;
/** @type {{engine: OptionRow[], sampling: OptionRow[]}} */
const tables = element ? JSON.parse(element.textContent) : { engine: [], sampling: [] };
/** @param {OptionRow[]} rows */
const offered = (rows) => rows.filter((row) => row.control);

/** Rows of EngineConfig and of SamplingParams that the page offers, in the struct's order. */
export const ENGINE = offered(tables.engine);
export const SAMPLING = offered(tables.sampling);

/**
 * Rows of both by name.
 * @type {Record<string, OptionRow>}
 */
export const ROWS = Object.fromEntries([...ENGINE, ...SAMPLING].map((row) => [row.name, row]));

/** Rows that the page sets for every run. The others are null until a person chooses; then the server's default holds. */
export const LAYOUT = ENGINE.filter((row) => row.control.initial !== undefined);

/**
 * The values of a choice.
 * @param {string} name
 * @returns {string[]}
 */
export const choicesOf = (name) => ROWS[name]?.choices ?? [];

/**
 * Rows of a group of controls, switches last.
 * @param {Control["group"]} group
 */
export const rowsOf = (group) => {
  const rows = Object.values(ROWS).filter((row) => row.control.group === group);
  return [...rows.filter((row) => row.kind !== "switch"), ...rows.filter((row) => row.kind === "switch")];
};
