// Verdict of a comparison in one sentence: the outcome that differs most, and the differing settings. Pure.

import { offText, optionLabel, valueText } from "../../i18n/options.js";
import { bytesText, grouped, secondsText, t } from "../../i18n/words.js";
import { isUnsaid, SIDES } from "./comparison.js";

/** @import {Answer, Side} from "./comparison.js" */

/**
 * @typedef {Answer["settings"][number]} SettingDifference
 * @typedef {Exclude<keyof Answer["a"]["totals"], "operations">} TotalName
 * @typedef {{name: TotalName, weight: number, text: (value: number) => string}} Kind
 * @typedef {{name: TotalName, larger: Side, values: Record<Side, number>}} Outcome `larger`: side of the larger value
 */

const MIN_SHARE = 0.05; // minimum relative difference of an outcome
const MIN_SHARE_OF_TIME = 0.2; // the same for seconds, which vary between runs
const MAX_CAUSES = 3; // settings that are named

/**
 * Outcomes by importance. Counts weigh more than measured times.
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
 * Return the outcome with the largest weighted (a − b) / max(a, b) of both runs, or null if none differs by 5 %.
 * Seconds count only from 20 % on, and only if both runs used the same machine.
 * @param {Pick<Answer, "a" | "b" | "same_machine" | "unsaid">} comparison
 * @returns {Outcome | null}
 */
export function outcomeOf(comparison) {
  const { a, b, same_machine } = comparison;
  /** @type {{outcome: Outcome, weight: number} | null} */
  let best = null;
  for (const { name, weight } of OUTCOMES) {
    if (isUnsaid(comparison, "a", name) || isUnsaid(comparison, "b", name)) continue;
    const values = { a: a.totals[name], b: b.totals[name] };
    const share = Math.abs(values.a - values.b) / Math.max(values.a, values.b, Number.MIN_VALUE);
    if (share < (name === "seconds" ? MIN_SHARE_OF_TIME : MIN_SHARE) || (name === "seconds" && !same_machine)) continue;
    if (best && share * weight <= best.weight) continue;
    best = { outcome: { name, larger: values.a > values.b ? "a" : "b", values }, weight: share * weight };
  }
  return best?.outcome ?? null;
}

/**
 * Verdict text, such as “B preempted 71 times, A 46: its pool is a third smaller.”
 * @param {Pick<Answer, "a" | "b" | "same_machine" | "same_model" | "settings" | "sequences" | "unsaid">} comparison
 */
export function verdictText(comparison) {
  if (SIDES.some((side) => isUnsaid(comparison, side, "num_steps"))) return t("compare.verdict.unsaid");
  const outcome = outcomeOf(comparison);
  const subject = outcome?.larger ?? "b";
  const causes = causesOf(comparison, subject);
  const cause = { cause: causes.join(t("join.clauses")), about: subject.toUpperCase() };
  if (!outcome) return causes.length ? t("compare.verdict.none_but", cause) : t("compare.verdict.none");
  const { name, values } = outcome;
  const other = subject === "a" ? "b" : "a";
  const { text } = /** @type {Kind} */ (OUTCOMES.find((kind) => kind.name === name));
  const outcomeText = t(`compare.outcome.${name}`, {
    more: subject.toUpperCase(),
    less: other.toUpperCase(),
    most: text(values[subject]),
    least: text(values[other]),
    n: values[subject],
  });
  return causes.length
    ? t("compare.verdict", { outcome: outcomeText, ...cause })
    : t("compare.verdict.same", { outcome: outcomeText });
}

/**
 * Return the differences of run `subject` from the other run: model, requests, settings.
 * @param {Parameters<typeof verdictText>[0]} comparison @param {Side} subject
 */
function causesOf({ same_model, settings, sequences, a, b }, subject) {
  const hasSamePrompts = sequences.every((pair) => pair.a && pair.b && pair.same_prompt);
  const requests = { a: a.totals.requests, b: b.totals.requests };
  const other = subject === "a" ? "b" : "a";
  const settingCauses = settings.slice(0, MAX_CAUSES).map((setting) => causeOf(setting, subject, settings));
  return [
    ...(same_model ? [] : [t("compare.cause.model")]),
    ...(hasSamePrompts ? [] : [requestsText(requests[subject], requests[other])]),
    ...settingCauses,
    ...(settings.length > MAX_CAUSES ? [t("compare.cause.more", { n: settings.length - MAX_CAUSES })] : []),
  ];
}

/** @param {number} n @param {number} other */
const requestsText = (n, other) =>
  n === other ? t("compare.cause.other_requests") : t("compare.cause.requests", { n, other });

/** @param {SettingDifference} setting @param {Side} subject @param {SettingDifference[]} all */
function causeOf({ name, a, b }, subject, all) {
  const [one, other] = subject === "a" ? [a, b] : [b, a];
  const isComparable = !all.some((setting) => setting.name === "block_size"); // else block counts mean different sizes
  if (name === "num_blocks" && isComparable && typeof one === "number" && typeof other === "number" && other > 0)
    return t("compare.cause.pool", { size: sizeText(one / other) });
  if (name === OFF) return t(one ? "compare.cause.off" : "compare.cause.all_on", { off: settingValue(name, one) });
  return t("compare.cause.setting", { name, value: settingValue(name, one), other: settingValue(name, other) });
}

/** @type {[ratio: number, key: string][]} ratios with a text of their own */
const NAMED_RATIOS = [
  [1 / 3, "two_thirds_less"],
  [1 / 2, "half"],
  [2 / 3, "third_less"],
  [3 / 4, "quarter_less"],
  [2, "twice"],
];

/** Describe a ratio of sizes: “a third smaller”, “twice as large”, “12 % larger”. @param {number} ratio */
export function sizeText(ratio) {
  const [, key] = NAMED_RATIOS.find(([named]) => Math.abs(ratio / named - 1) < 0.02) ?? [];
  if (key) return t(`compare.size.${key}`);
  if (ratio > 2) return t("compare.size.times", { n: Number(ratio.toPrecision(2)) });
  const percent = Math.max(1, Math.round(Math.abs(ratio - 1) * 100));
  return t(ratio < 1 ? "compare.size.less" : "compare.size.more", { n: percent });
}

const OFF = "ablate"; // a setting without a flag

/** Name of a setting as in its flag, or its label if it has no flag. @param {string} name */
export const settingName = (name) => (name === OFF ? optionLabel(name) : name);

/** Format a setting's value. @param {string} name @param {unknown} value */
export function settingValue(name, value) {
  if (name === OFF) return offText(/** @type {string | null} */ (value));
  return value === null ? "–" : typeof value === "boolean" ? valueText(name, value) : String(value);
}
