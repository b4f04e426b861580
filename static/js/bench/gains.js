// Ratios in everyday words: "5.0 times faster", "a third of the memory"; and whether that is good. Mirrors the command
// line (engine/bench/gains.py, which has the words); a test compares their sentences.

import { hasText, t } from "../i18n/words.js";

/**
 * @typedef {"rate" | "run" | "time" | "memory" | "work" | "tokens" | "amount"} Kind
 * @typedef {{unit: string, better: "higher" | "lower" | null}} Metric
 * @typedef {{median: number, low?: number | null, high?: number | null}} Ratio
 *
 * `key` and `kind`: the wording; `good`: null if undefined.
 * @typedef {{key: string, kind: Kind, values: Record<string, string>, good: boolean | null}} Gain
 */

const MEMORY = ["kv_bytes_per_token", "peak_blocks", "peak_kv_bytes"];
const FRACTIONS = {
  half: 1 / 2,
  third: 1 / 3,
  two_thirds: 2 / 3,
  quarter: 1 / 4,
  three_quarters: 3 / 4,
  fifth: 1 / 5,
  eighth: 1 / 8,
  tenth: 1 / 10,
};
const [SAME, EXACT, ABOUT] = [0.005, 0.005, 0.04]; // tolerances around 1 and around fractions, relative
const TIMES_LESS = 0.09; // smaller ratios are expressed as "times less"

/**
 * Return the wording of a metric's ratio; if its interval contains 1, no difference was measured.
 * @param {string} metric
 * @param {Metric} info
 * @param {Ratio} ratio
 * @returns {Gain}
 */
export function gainOf(metric, { unit, better }, { median: ratio, low = null, high = null }) {
  const kind = kindOf(metric, unit);
  if (low !== null && high !== null && low < high && low <= 1 && 1 <= high)
    return { key: "unclear", kind, values: {}, good: null };
  if (Math.abs(ratio - 1) < SAME) return { key: "same", kind, values: {}, good: null };
  const good = better === null ? null : ratio > 1 === (better === "higher");
  const [key, values] = phrase(kind, ratio);
  return { key, kind, values, good };
}

/** Return a gain in the words of the page. @param {Gain} gain */
export function gainText({ key, kind, values }) {
  const fraction = values.fraction ? { fraction: t(`gain.fraction.${values.fraction}`) } : {};
  const own = `gain.${kind}.${key}`;
  return t(hasText(own) ? own : `gain.${key}`, { ...values, ...fraction });
}

/** Return the wording category of a metric. @param {string} metric @param {string} unit @returns {Kind} */
function kindOf(metric, unit) {
  if (unit.endsWith("/s")) return "rate";
  if (unit === "s") return metric === "seconds" ? "run" : "time";
  if (MEMORY.includes(metric)) return "memory";
  return unit === "FLOP" ? "work" : unit === "tokens" ? "tokens" : "amount";
}

/** @param {Kind} kind @param {number} ratio @returns {[key: string, values: Record<string, string>]} */
function phrase(kind, ratio) {
  if (ratio <= 0) return ["none", {}];
  if (kind === "rate" || kind === "run") {
    const speed = kind === "rate" ? ratio : 1 / ratio;
    if (speed >= 2) return ["times_faster", { n: times(speed) }];
    if (speed > 1) return ["percent_faster", { n: percent(speed - 1) }];
    if (speed > 0.5) return ["percent_slower", { n: percent(1 - speed) }];
    return ["times_slower", { n: times(1 / speed) }];
  }
  if (ratio >= 2) return ["times_more", { n: times(ratio) }];
  if (ratio > 1) return ["percent_more", { n: percent(ratio - 1) }];
  if (kind === "time" && ratio > 0.5) return ["percent_less", { n: percent(1 - ratio) }];
  if (kind === "time" || ratio < TIMES_LESS) return ["times_less", { n: times(1 / ratio) }];
  return part(ratio);
}

/**
 * Return a ratio below 1 as a named fraction if one is close, else as a percentage.
 * @param {number} ratio
 * @returns {[key: string, values: Record<string, string>]}
 */
function part(ratio) {
  const all = Object.entries(FRACTIONS);
  const [name, nearest] = all.reduce((a, b) => (Math.abs(b[1] - ratio) < Math.abs(a[1] - ratio) ? b : a));
  const off = Math.abs(ratio / nearest - 1);
  return off <= ABOUT ? [off <= EXACT ? "fraction" : "about", { fraction: name }] : ["share", { of: percent(ratio) }];
}

/** @param {number} value with one decimal below ten */
const times = (value) =>
  value >= 9.95 ? String(Math.floor(value + 0.5)) : (Math.floor(value * 10 + 0.5) / 10).toFixed(1);

/** @param {number} share formatted as whole percent, below ten with a decimal unless it is 0 */
function percent(share) {
  const value = 100 * share;
  return String(value >= 9.95 ? Math.floor(value + 0.5) : Math.floor(value * 10 + 0.5) / 10);
}
