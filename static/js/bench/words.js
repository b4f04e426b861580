// Words and number formats of the benchmark page, in its language.

import { inLanguage, t } from "../i18n/words.js";

/** @import {BenchRecord} from "../core/bench.js" */

/**
 * @typedef {{factor: number, unit: string}} Measure value · factor is in `unit`, as displayed; "": no unit
 * @typedef {{median: number, low: number | null, high: number | null}} Estimate `low` and `high`: null without an
 * interval
 */

const PREFIXES = ["", "k", "M", "G", "T", "P"];
const BINARY = ["B", "KiB", "MiB", "GiB", "TiB"];

/** Return the format of a unit's values up to `max`. @param {string} unit @param {number} max @returns {Measure} */
export function measureOf(unit, max) {
  if (unit === "s")
    return max === 0 || max >= 1
      ? { factor: 1, unit: "s" }
      : max >= 1e-3
        ? { factor: 1e3, unit: "ms" }
        : { factor: 1e6, unit: "µs" };
  if (unit === "share") return { factor: 100, unit: "%" };
  if (unit === "×") return { factor: 1, unit: "×" };
  if (unit === "B") {
    const power = Math.min(BINARY.length - 1, max >= 1024 ? Math.floor(Math.log2(max) / 10) : 0);
    return { factor: 1024 ** -power, unit: BINARY[power] };
  }
  if (unit === "FLOP") {
    const power = Math.min(PREFIXES.length - 1, max >= 1000 ? Math.floor(Math.log10(max) / 3) : 0);
    return { factor: 1000 ** -power, unit: `${PREFIXES[power]}FLOP` };
  }
  return { factor: 1, unit: unit && unitText(unit) };
}

/** Return a unit's name; an unknown one as in the record. @param {string} unit */
export function unitText(unit) {
  const key = `bench.unit.${unit}`;
  const text = t(key);
  return text === key ? unit : text;
}

/** Format with three significant digits; whole numbers below a million with all digits. @param {number} value */
export function numberText(value) {
  if (Number.isInteger(value) && Math.abs(value) < 1e6) return groupedDigits(String(value));
  if (Math.abs(value) >= 1e6) return Number(value.toPrecision(3)).toExponential().replace("e+", "e");
  if (Math.abs(value) >= 1000) return groupedDigits(String(Math.round(value)));
  return String(Number(value.toPrecision(3)));
}

/** @param {string} digits */
const groupedDigits = (digits) => digits.replace(/\B(?=(\d{3})+(?!\d))/g, "\u2009");

/**
 * Format a value with its unit, in the given measure or a suitable one.
 * @param {number} value
 * @param {string} unit
 * @param {Measure} measure
 */
export function quantityText(value, unit, measure = measureOf(unit, Math.abs(value))) {
  const number = numberText(Number((value * measure.factor).toPrecision(6)));
  if (!measure.unit) return number;
  return measure.unit === "%" || measure.unit === "×"
    ? `${number}${measure.unit === "×" ? "×" : "\u2009%"}`
    : `${number}\u2009${measure.unit}`;
}

/**
 * Format as `median [low, high] unit`, without the interval if all rounds were equal.
 * @param {Estimate} estimate
 * @param {string} unit
 * @param {Measure} measure
 */
export function estimateText({ median, low, high }, unit, measure = measureOf(unit, Math.abs(median))) {
  const number = (/** @type {number} */ value) => numberText(Number((value * measure.factor).toPrecision(6)));
  const interval = low === null || high === null || low === high ? "" : ` [${number(low)}, ${number(high)}]`;
  if (measure.unit === "×") return `${number(median)}×${interval}`;
  return `${number(median)}${interval}${measure.unit ? `\u2009${measure.unit}` : ""}`;
}

/**
 * Return a value of the axis: its title if it has one, else the number.
 * @param {import("./record.js").AxisPoint} point
 */
export const atText = ({ at, title }) =>
  title ? inLanguage(title) : typeof at === "number" ? numberText(at) : String(at);

/** Format a duration as seconds or minutes. @param {number} seconds */
export const durationText = (seconds) =>
  seconds < 90
    ? t("bench.seconds", { n: Math.max(1, Math.round(seconds)) })
    : t("bench.minutes", { n: Math.round(seconds / 60) });

/** Format an ISO 8601 time as date and time, UTC. @param {string} iso */
export const momentText = (iso) => iso.slice(0, 16).replace("T", " ");

/** Return a record's largest median of a metric. @param {BenchRecord} record @param {string} metric */
export const highestOf = (record, metric) =>
  Math.max(0, ...record.points.map((point) => point.figures[metric]?.median ?? 0));
