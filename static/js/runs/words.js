// Sentences on several runs, shared by panels: quoted tokens, tokens per run, agreement.

import { stepFailed } from "../i18n/operations.js";
import { t } from "../i18n/words.js";
import { labelOf, labelsOf } from "./tokens.js";

/** @import {Lockstep} from "./lockstep.js" */
/** @import {Aligned, Token} from "./tokens.js" */

/** @param {string} text */
export const quoted = (text) => t("runs.token", { token: text });

/** Return tokens (bytes) as one quoted text. @param {Uint8Array[]} tokens */
export const tokensWord = (tokens) => quoted(tokens.map(labelOf).join(""));

/**
 * Return each run's token at `place`: "no cache “月”, contiguous “日”, paged had ended".
 * @param {string[]} names names of the runs
 * @param {Token[][]} lanes
 * @param {number} place
 */
export function choices(names, lanes, place) {
  const parts = names.map((name, i) => {
    const token = labelsOf(lanes[i])[place];
    return token === undefined ? t("runs.choice_none", { name }) : t("runs.choice", { name, token });
  });
  return parts.join(t("runs.comma"));
}

/** Return whether the runs agree so far. @param {string[]} names of the runs @param {Aligned | null} aligned */
export function verdict(names, aligned) {
  if (!aligned?.lanes.some((lane) => lane.length)) return t("runs.verdict.none");
  const { lanes, same, difference } = aligned;
  if (!difference) return t("runs.verdict.same", { n: same, all: t(`runs.all.${names.length}`) });
  return t("runs.verdict.differs", { place: difference.place + 1, choices: choices(names, lanes, difference.place) });
}

/**
 * Return the message shown instead of the lanes: why they could not continue, or that there are none; null if there
 * are.
 * @param {Lockstep} lanes
 * @returns {string | null}
 */
export function placeholderText(lanes) {
  const problem = lanes.problem.value;
  if (problem?.objection) return stepFailed(problem.objection);
  if (problem) return problem.message || t("runs.lost");
  if (lanes.logs.value) return null;
  return t(lanes.phase.value === "opening" ? "runs.opening" : `${lanes.kind}.say.start`);
}
