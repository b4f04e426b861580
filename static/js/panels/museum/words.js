// Texts of the museum: the result of a step in both runs, and its errors.

import { objectionWords, sequenceName } from "../../i18n/operations.js";
import { sentences, t } from "../../i18n/words.js";
import { hasStep, recordAt } from "../../runs/steps.js";
import { labelOf } from "../../runs/tokens.js";
import { placeholderText, quoted } from "../../runs/words.js";
import { objectionsIn } from "./evidence.js";

/** @import {TraceLog} from "../../core/log.js" */
/** @import {Token} from "../../runs/tokens.js" */
/** @import {Scene} from "./model.js" */

/** Quote a sampled token, or describe its absence. @param {Pick<Token, "token_bytes"> | undefined} token */
export const tokenWord = (token) => (token ? quoted(labelOf(token.token_bytes)) : t("museum.say.nothing"));

/** Format a distance or share with at most three significant digits. @param {number} value */
export const figure = (value) =>
  value === 0 ? "0" : value >= 0.001 ? Number(value.toPrecision(3)).toString() : value.toExponential(0);

/** Return all objections in the log's `step`-th step as text, or "". @param {TraceLog} log @param {number} step */
export function objectedAt(log, step) {
  if (!hasStep(log, step)) return "";
  return objectionsIn(log.records[recordAt(log, step)]).map(objectionWords).join(t("museum.objection.and"));
}

/** Sentence about the shown step. @param {Scene | null} now @param {import("../../runs/lockstep.js").Lockstep} lanes */
export function museumSentence(now, lanes) {
  const notReady = placeholderText(lanes);
  if (notReady !== null || !now) return notReady ?? "";
  if (now.step === 0) return t("museum.say.ready", { n: lanes.spec.value?.prompts.length });
  const parts = [sampledText(now)];
  const found = objectedAt(now.logs[1], now.step);
  const previous = now.step > 1 ? objectedAt(now.logs[1], now.step - 1) : "";
  if (found)
    parts.push(
      found === previous
        ? sentences([t("museum.say.objection", { text: found }), t("museum.say.still")])
        : t("museum.say.objection", { text: found }),
    );
  const over = lanes.phase.value === "done" && now.step === now.last;
  if (over && !now.logs[1].records.some((record) => objectionsIn(record).length)) parts.push(t("museum.say.silent"));
  return sentences(parts);
}

/** @param {Scene} now */
function sampledText({ logs, step, seqs }) {
  for (const { seq_id, difference } of seqs) {
    if (difference?.step !== step) continue;
    const [healthy, faulty] = difference.tokens.map(tokenWord);
    return t("museum.say.first", { step, name: sequenceName(seq_id), place: difference.place + 1, healthy, faulty });
  }
  const nothing = t("museum.say.nothing");
  const [healthy, faulty] = logs.map((log) => {
    const outputs = hasStep(log, step) ? (log.records[recordAt(log, step)].outputs ?? []) : [];
    return outputs.map(tokenWord).join(t("museum.say.comma"));
  });
  if (healthy !== faulty)
    return t("museum.say.differ", { step, healthy: healthy || nothing, faulty: faulty || nothing });
  return healthy ? t("museum.say.same", { step, tokens: healthy }) : t("museum.say.no_token", { step });
}
