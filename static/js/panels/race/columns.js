// Columns of the race table: figures, groups and tooltips.

import { ridge } from "../../core/metrics.js";
import { bytesText, grouped, intensityText, secondsText, t } from "../../i18n/words.js";
import { roofs } from "../../net/rooflines.js";
import { racing } from "./model.js";

/** @import {LaneFigures} from "./figures.js" */

/**
 * @typedef {"computed" | "kept" | "wasted" | "transient" | "flops" | "bytes" | "seconds"} StepKey
 * @typedef {"intensity" | "copied" | "storage" | "totalCopied"} CountedKey
 * @typedef {"step" | "perToken" | "blocks" | "states" | "weightBytes" | "kvBytes"} ModelKey
 * @typedef {StepKey | CountedKey | ModelKey | "totalComputed" | "totalFlops" | "totalBytes" | "totalSeconds"} Key
 *
 * `tipLines`: tooltip lines.
 * @typedef {{
 *   key: Key,
 *   column: string,
 *   text: (value: number) => string,
 *   fidelity?: "captured" | "derived",
 *   tipLines?: (lane: LaneFigures, key: Key, strategy: string) => string[],
 * }} Column
 */

/** @typedef {[group: string, columns: Column[]]} Group */

/** @type {Group} */
const TOKENS = [
  "tokens",
  [
    { key: "computed", column: "step", text: grouped, fidelity: "captured" },
    { key: "totalComputed", column: "total", text: grouped, fidelity: "derived" },
  ],
];
/** @type {Group} */
const TIME = [
  "time",
  [
    { key: "seconds", column: "step", text: secondsText },
    { key: "totalSeconds", column: "total", text: secondsText },
  ],
];
/** @type {Group[]} */
const STRATEGY_GROUPS = [
  TOKENS,
  [
    "memory",
    [
      { key: "kept", column: "kept", text: bytesText, tipLines: memoryLines },
      { key: "transient", column: "transient", text: bytesText, tipLines: memoryLines },
      { key: "wasted", column: "wasted", text: bytesText, tipLines: memoryLines },
    ],
  ],
  [
    "flops",
    [
      { key: "flops", column: "step", text: operationsText },
      { key: "totalFlops", column: "total", text: operationsText },
    ],
  ],
  [
    "bytes",
    [
      { key: "bytes", column: "step", text: bytesText, tipLines: exactBytes },
      { key: "totalBytes", column: "total", text: bytesText, tipLines: exactBytes },
      { key: "intensity", column: "intensity", text: intensityText, tipLines: boundLines },
    ],
  ],
  TIME,
];
/** @type {Group[]} */
const CACHE_GROUPS = [
  TOKENS,
  [
    "reserved",
    [
      { key: "kept", column: "kept", text: bytesText, tipLines: memoryLines },
      { key: "wasted", column: "wasted", text: bytesText, tipLines: memoryLines },
    ],
  ],
  ["tensors", [{ key: "storage", column: "storage", text: bytesText, tipLines: exactBytes, fidelity: "captured" }]],
  [
    "copied",
    [
      { key: "copied", column: "step", text: bytesText, tipLines: copiedLines, fidelity: "captured" },
      { key: "totalCopied", column: "total", text: bytesText, tipLines: exactBytes, fidelity: "derived" },
    ],
  ],
  TIME,
];
/** @type {Group[]} */
const DRAFT_GROUPS = [
  TOKENS,
  CACHE_GROUPS[1],
  ...STRATEGY_GROUPS.slice(2, -1),
  ["time", [{ key: "step", column: "steps", text: grouped }, ...TIME[1]]],
];
/** @type {Group[]} */
const MODEL_GROUPS = [
  TOKENS,
  [
    "cache",
    [
      { key: "perToken", column: "perToken", text: bytesText, tipLines: exactBytes },
      { key: "blocks", column: "blocks", text: grouped },
      { key: "states", column: "states", text: bytesText, tipLines: exactBytes },
      { key: "kept", column: "kept", text: bytesText, tipLines: memoryLines },
    ],
  ],
  [
    "bytes",
    [
      { key: "weightBytes", column: "weights", text: bytesText, tipLines: exactBytes },
      { key: "kvBytes", column: "kv", text: bytesText, tipLines: exactBytes },
      { key: "totalBytes", column: "total", text: bytesText, tipLines: exactBytes },
    ],
  ],
  ["time", [{ key: "step", column: "steps", text: grouped }, ...TIME[1]]],
];
export const MARKED_GROUPS = new Set(["tokens", "tensors", "copied"]); // groups with a fidelity mark per column

const GROUPS = { strategies: STRATEGY_GROUPS, caches: CACHE_GROUPS, drafts: DRAFT_GROUPS, models: MODEL_GROUPS };

/** Column groups of the current set. */
export const groups = () => GROUPS[racing.value];

/** Columns with the name of their group. `begins`: whether the column is the first of a later group. */
export const columns = () =>
  groups().flatMap(([group, found], at) =>
    found.map((column, place) => ({ ...column, group, begins: at > 0 && place === 0 })),
  );

/** @param {LaneFigures} lane @param {Key} key */
function exactBytes(lane, key) {
  return [t("memory.exact", { n: grouped(lane[key] ?? 0) })];
}

/** @param {LaneFigures} lane @param {Key} key */
function memoryLines(lane, key) {
  return [...exactBytes(lane, key), t("race.used", { bytes: bytesText(lane.used), exact: grouped(lane.used) })];
}

/**
 * Lines about the bytes copied in a step, with the formula.
 * @param {LaneFigures} lane @param {Key} key @param {string} strategy
 */
function copiedLines(lane, key, strategy) {
  if (strategy !== "concat" && strategy !== "dynamic") return [...exactBytes(lane, key), t("race.copied.in_place")];
  const [read, bytes] = [lane.slots?.read ?? 0, lane.used / ((lane.slots?.read ?? 0) + lane.computed)];
  const values = { read: grouped(read), bytes: grouped(bytes), product: grouped(read * bytes) };
  return [...exactBytes(lane, key), t("race.copied.formula", values)];
}

/**
 * Lines about a step's arithmetic intensity. If the machine is measured, they say whether memory or arithmetic bounds
 * the step.
 * @param {LaneFigures} lane
 */
function boundLines({ flops, bytes, intensity }) {
  const formula = t("race.intensity.formula", { flops: grouped(flops), bytes: grouped(bytes) });
  const roof = roofs.value;
  if (typeof roof !== "object" || intensity === null) return [formula];
  const side = intensity < ridge(roof) ? "memory" : "arithmetic";
  return [formula, t(`race.intensity.${side}`, { ridge: intensityText(ridge(roof)) })];
}

/** Format a number of operations with a decimal prefix: 11.4 M. @param {number} count */
export function operationsText(count) {
  const units = ["", "K", "M", "G", "T", "P"];
  let unit = 0;
  let value = count;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${Number(value.toPrecision(3))}${unit ? `\u2009${units[unit]}` : ""}`;
}
