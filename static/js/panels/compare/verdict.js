// Verdict of a comparison in one sentence: the outcome that differs most, and the differing settings. Pure.

import { offText, optionLabel, valueText } from "../../i18n/options.js";
import { bytesText, grouped, secondsText, t } from "../../i18n/words.js";
import { isUnsaid, SIDES } from "./comparison.js";

/** @import {Answer, Side} from "./comparison.js" */

/**
 * @typedef {Answer["settings"][number]} SettingDifference
 * @typedef {Exclude<keyof Answer["a"]["totals"], "operations">} TotalName
 * @typedef {{name: TotalName, weight: number, text: (value: number) => string}} Kind
 * @typedef {{name: TotalName, more: Side, values: Record<Side, number>}} Outcome `more`: the side that has more of it
 */

const LEAST = 0.05; // minimum relative difference of an outcome
const LEAST_OF_A_CLOCK = 0.2; // the same for seconds, which vary between runs
const MAX_NAMED = 3; // settings

/**
 * Outcomes by importance. Counts weigh more than measured times: 46 of 71 preemptions say more than 2 of 3 copies.
 * @type {Kind[]}
 */
const OUTCOMES = [
  { name: "preemptions", weight: 1, text: grouped },
  { name: "hit_tokens", weight: 1, text: grouped },
  { name: "num_steps", weight: 0.9, text: grouped },
  { name: "computed_tokens", weight: 0.9, text: grouped },
  { name: "seconds", weight: 0.5, text: secondsText },
  { name: "bytes_peak", weight: 0.8, text: bytesText },
  { name: "wasted_peak", weight: 0.8, text: bytesText },
  { name: "swapped_bytes", weight: 0.7, text: bytesText },
  { name: "evictions", weight: 0.6, text: grouped },
  { name: "copies", weight: 0.5, text: grouped },
  { name: "output_tokens", weight: 0.5, text: grouped },
];

/**
 * Return the outcome of the whole runs with the largest weighted (a − b) / max(a, b), or null if none differs by 5 %.
 * Seconds count only from 20 % on, and only if both runs used the same machine.
 * @param {Pick<Answer, "a" | "b" | "same_machine" | "unsaid">} comparison
 * @returns {Outcome | null}
 */
export function outcomeOf(comparison) {
  const { a, b, same_machine } = comparison;
  /** @type {{outcome: Outcome, weight: number} | null} */
  let found = null;
  for (const { name, weight } of OUTCOMES) {
    if (isUnsaid(comparison, "a", name) || isUnsaid(comparison, "b", name)) continue;
    const values = { a: a.totals[name], b: b.totals[name] };
    const share = Math.abs(values.a - values.b) / Math.max(values.a, values.b, Number.MIN_VALUE);
    if (share < (name === "seconds" ? LEAST_OF_A_CLOCK : LEAST) || (name === "seconds" && !same_machine)) continue;
    if (found && share * weight <= found.weight) continue;
    found = { outcome: { name, more: values.a > values.b ? "a" : "b", values }, weight: share * weight };
  }
  return found?.outcome ?? null;
}

/**
 * Verdict text, such as “B preempted 71 times, A 46: its pool is a third smaller.”
 * @param {Pick<Answer, "a" | "b" | "same_machine" | "same_model" | "settings" | "sequences" | "unsaid">} comparison
 */
export function verdictText(comparison) {
  if (SIDES.some((side) => isUnsaid(comparison, side, "num_steps"))) return t("compare.verdict.unsaid");
  const outcome = outcomeOf(comparison);
  const about = outcome?.more ?? "b";
  const causes = causesOf(comparison, about);
  const cause = { cause: causes.join(t("join.clauses")), about: about.toUpperCase() };
  if (!outcome) return causes.length ? t("compare.verdict.none_but", cause) : t("compare.verdict.none");
  const { name, values } = outcome;
  const less = about === "a" ? "b" : "a";
  const { text } = /** @type {Kind} */ (OUTCOMES.find((kind) => kind.name === name));
  const outcomeText = t(`compare.outcome.${name}`, {
    more: about.toUpperCase(),
    less: less.toUpperCase(),
    most: text(values[about]),
    least: text(values[less]),
    n: values[about],
  });
  return causes.length
    ? t("compare.verdict", { outcome: outcomeText, ...cause })
    : t("compare.verdict.same", { outcome: outcomeText });
}

/**
 * Return what distinguishes the run `about` from the other: model, requests, settings.
 * @param {Parameters<typeof verdictText>[0]} comparison
 * @param {Side} about
 */
function causesOf({ same_model, settings, sequences, a, b }, about) {
  const same = sequences.every((pair) => pair.a && pair.b && pair.same_prompt);
  const requests = { a: a.totals.requests, b: b.totals.requests };
  const other = about === "a" ? "b" : "a";
  const named = settings.slice(0, MAX_NAMED).map((setting) => causeOf(setting, about, settings));
  return [
    ...(same_model ? [] : [t("compare.cause.model")]),
    ...(same ? [] : [requestsText(requests[about], requests[other])]),
    ...named,
    ...(settings.length > MAX_NAMED ? [t("compare.cause.more", { n: settings.length - MAX_NAMED })] : []),
  ];
}

/** @param {number} n @param {number} other */
const requestsText = (n, other) =>
  n === other ? t("compare.cause.other_requests") : t("compare.cause.requests", { n, other });

/** @param {SettingDifference} setting @param {Side} about @param {SettingDifference[]} all */
function causeOf({ name, a, b }, about, all) {
  const [one, other] = about === "a" ? [a, b] : [b, a];
  const alone = !all.some((setting) => setting.name === "block_size"); // block counts compare only at equal block sizes
  if (name === "num_blocks" && alone && typeof one === "number" && typeof other === "number" && other > 0)
    return t("compare.cause.pool", { size: sizeText(one / other) });
  if (name === OFF) return t(one ? "compare.cause.off" : "compare.cause.all_on", { off: settingValue(name, one) });
  return t("compare.cause.setting", { name, value: settingValue(name, one), other: settingValue(name, other) });
}

/** @type {[ratio: number, key: string][]} ratios that have a word */
const RATIOS = [
  [1 / 3, "two_thirds_less"],
  [1 / 2, "half"],
  [2 / 3, "third_less"],
  [3 / 4, "quarter_less"],
  [2, "twice"],
];

/** Describe a ratio of sizes: “a third smaller”, “twice as large”, “12 % larger”. @param {number} ratio */
export function sizeText(ratio) {
  const [, key] = RATIOS.find(([known]) => Math.abs(ratio / known - 1) < 0.02) ?? [];
  if (key) return t(`compare.size.${key}`);
  if (ratio > 2) return t("compare.size.times", { n: Number(ratio.toPrecision(2)) });
  const percent = Math.max(1, Math.round(Math.abs(ratio - 1) * 100));
  return t(ratio < 1 ? "compare.size.less" : "compare.size.more", { n: percent });
}

const OFF = "ablate"; // a setting without a flag

/** Name of a setting as its flag spells it, or its label if it has no flag. @param {string} name */
export const settingName = (name) => (name === OFF ? optionLabel(name) : name);

/** Format a setting's value; switches and ablations have words. @param {string} name @param {unknown} value */
export function settingValue(name, value) {
  if (name === OFF) return offText(/** @type {string | null} */ (value));
  return value === null ? "–" : typeof value === "boolean" ? valueText(name, value) : String(value);
}
