// What is said of several runs in any panel: tokens in quotation marks, which run chose what, whether they agree.

import { stepFailed } from "../tell/operations.js";
import { t } from "../tell/words.js";
import { labelOf, labelsOf } from "./tokens.js";

/**
 * @typedef {import("./tokens.js").Token} Token
 * @typedef {import("./tokens.js").Aligned} Aligned
 * @typedef {import("./lockstep.js").Lockstep} Lockstep
 */

/** @param {string} text */
export const quoted = (text) => t("runs.token", { token: text });

/**
 * Tokens (bytes) as one quoted text.
 * @param {Uint8Array[]} tokens
 */
export const tokensWord = (tokens) => quoted(tokens.map(labelOf).join(""));

/**
 * What each run chose at `place`: "no cache “月”, contiguous “日”, paged had ended".
 * @param {string[]} names of the runs
 * @param {Token[][]} lanes
 * @param {number} place
 */
export function choices(names, lanes, place) {
  const said = names.map((name, i) => {
    const token = labelsOf(lanes[i])[place];
    return token === undefined ? t("runs.choice_none", { name }) : t("runs.choice", { name, token });
  });
  return said.join(t("runs.comma"));
}

/**
 * Whether the runs agree, as far as they have come.
 * @param {string[]} names of the runs
 * @param {Aligned | null} aligned
 */
export function verdict(names, aligned) {
  if (!aligned?.lanes.some((lane) => lane.length)) return t("runs.verdict.none");
  const { lanes, same, difference } = aligned;
  if (!difference) return t("runs.verdict.same", { n: same, all: t(`runs.all.${names.length}`) });
  return t("runs.verdict.differs", { place: difference.place + 1, choices: choices(names, lanes, difference.place) });
}

/**
 * What is to be said of lanes before anything of their logs: why they could not go on, or that there are none yet; or
 * null.
 * @param {Lockstep} lanes
 * @returns {string | null}
 */
export function beforehand(lanes) {
  const problem = lanes.problem.value;
  if (problem?.objection) return stepFailed(problem.objection);
  if (problem) return problem.message || t("runs.lost");
  if (lanes.logs.value) return null;
  return t(lanes.phase.value === "opening" ? "runs.opening" : `${lanes.kind}.say.start`);
}
