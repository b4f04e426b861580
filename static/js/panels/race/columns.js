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
 * `about`: tooltip lines.
 * @typedef {{
 *   key: Key,
 *   column: string,
 *   text: (value: number) => string,
 *   fidelity?: "captured" | "derived",
 *   about?: (lane: LaneFigures, key: Key, strategy: string) => string[],
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
const OF_STRATEGIES = [
  TOKENS,
  [
    "memory",
    [
      { key: "kept", column: "kept", text: bytesText, about: memoryAbout },
      { key: "transient", column: "transient", text: bytesText, about: memoryAbout },
      { key: "wasted", column: "wasted", text: bytesText, about: memoryAbout },
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
      { key: "bytes", column: "step", text: bytesText, about: exactBytes },
      { key: "totalBytes", column: "total", text: bytesText, about: exactBytes },
      { key: "intensity", column: "intensity", text: intensityText, about: sideAbout },
    ],
  ],
  TIME,
];
/** @type {Group[]} */
const OF_CACHES = [
  TOKENS,
  [
    "reserved",
    [
      { key: "kept", column: "kept", text: bytesText, about: memoryAbout },
      { key: "wasted", column: "wasted", text: bytesText, about: memoryAbout },
    ],
  ],
  ["tensors", [{ key: "storage", column: "storage", text: bytesText, about: exactBytes, fidelity: "captured" }]],
  [
    "copied",
    [
      { key: "copied", column: "step", text: bytesText, about: copiedAbout, fidelity: "captured" },
      { key: "totalCopied", column: "total", text: bytesText, about: exactBytes, fidelity: "derived" },
    ],
  ],
  TIME,
];
/** @type {Group[]} */
const OF_DRAFTS = [
  TOKENS,
  OF_CACHES[1],
  ...OF_STRATEGIES.slice(2, -1),
  ["time", [{ key: "step", column: "steps", text: grouped }, ...TIME[1]]],
];
/** @type {Group[]} */
const OF_MODELS = [
  TOKENS,
  [
    "cache",
    [
      { key: "perToken", column: "perToken", text: bytesText, about: exactBytes },
      { key: "blocks", column: "blocks", text: grouped },
      { key: "states", column: "states", text: bytesText, about: exactBytes },
      { key: "kept", column: "kept", text: bytesText, about: memoryAbout },
    ],
  ],
  [
    "bytes",
    [
      { key: "weightBytes", column: "weights", text: bytesText, about: exactBytes },
      { key: "kvBytes", column: "kv", text: bytesText, about: exactBytes },
      { key: "totalBytes", column: "total", text: bytesText, about: exactBytes },
    ],
  ],
  ["time", [{ key: "step", column: "steps", text: grouped }, ...TIME[1]]],
];
export const MARKED = new Set(["tokens", "tensors", "copied"]); // groups whose columns have their own fidelity marks

const GROUPS = { strategies: OF_STRATEGIES, caches: OF_CACHES, drafts: OF_DRAFTS, models: OF_MODELS };

/** Column groups of the current set. */
export const groups = () => GROUPS[racing.value];

/** Columns with the name of their group, and whether each begins one. */
export const columns = () =>
  groups().flatMap(([group, found], at) =>
    found.map((column, place) => ({ ...column, group, begins: at > 0 && place === 0 })),
  );

/** @param {LaneFigures} lane @param {Key} key */
function exactBytes(lane, key) {
  return [t("memory.exact", { n: grouped(lane[key] ?? 0) })];
}

/** @param {LaneFigures} lane @param {Key} key */
function memoryAbout(lane, key) {
  return [...exactBytes(lane, key), t("race.used", { bytes: bytesText(lane.used), exact: grouped(lane.used) })];
}

/**
 * Bytes copied in a step, compared with the formula.
 * @param {LaneFigures} lane
 * @param {Key} key
 * @param {string} strategy
 */
function copiedAbout(lane, key, strategy) {
  if (strategy !== "concat" && strategy !== "dynamic") return [...exactBytes(lane, key), t("race.copied.in_place")];
  const [read, bytes] = [lane.slots?.read ?? 0, lane.used / ((lane.slots?.read ?? 0) + lane.computed)];
  const values = { read: grouped(read), bytes: grouped(bytes), product: grouped(read * bytes) };
  return [...exactBytes(lane, key), t("race.copied.formula", values)];
}

/**
 * Whether memory or arithmetic bounds the step, relative to the machine's ridge. Omitted if the machine is not
 * measured.
 * @param {LaneFigures} lane
 */
function sideAbout({ flops, bytes, intensity }) {
  const formula = t("race.intensity.formula", { flops: grouped(flops), bytes: grouped(bytes) });
  const known = roofs.value;
  if (typeof known !== "object" || intensity === null) return [formula];
  const side = intensity < ridge(known) ? "memory" : "arithmetic";
  return [formula, t(`race.intensity.${side}`, { ridge: intensityText(ridge(known)) })];
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
