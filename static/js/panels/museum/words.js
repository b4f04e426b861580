// The museum in words: what a step did in both runs, and what is wrong with it.

import { labelText, loneLabel } from "../../core/labels.js";
import { objectionsIn, recordAt, tookStep } from "../../runs/fault.js";
import { objectionWords, stepFailed } from "../../tell/objections.js";
import { sentences, t } from "../../tell/words.js";

export const seqName = (id) => t("sequence.name", { id });

/** A chosen token in quotation marks, or that there is none. */
export const tokenWord = (chosen) =>
  chosen ? t("museum.say.token", { token: labelText(loneLabel(chosen.bytes)) }) : t("museum.say.nothing");

/** Tokens (bytes) as one quoted text. */
export const tokensWord = (tokens) =>
  t("museum.say.token", { token: tokens.map((bytes) => labelText(loneLabel(bytes))).join("") });

/** A distance or share for a sentence: two or three digits, whatever its size. */
export const figure = (value) =>
  value === 0 ? "0" : value >= 0.001 ? Number(value.toPrecision(3)).toString() : value.toExponential(0);

/** All that was objected to in the log's `step`-th step, or "". */
export function objectedAt(log, step) {
  if (!tookStep(log, step)) return "";
  return objectionsIn(log.records[recordAt(log, step)]).map(objectionWords).join(t("museum.objection.and"));
}

/** One sentence or two on the step that is shown. `now`: the scene or null. */
export function museumSentence(now, lanes) {
  const problem = lanes.problem.value;
  if (problem) return problem.objection ? stepFailed(problem.objection) : (problem.message ?? t("museum.lost"));
  if (!now) return t(lanes.phase.value === "opening" ? "museum.say.opening" : "museum.say.start");
  if (now.step === 0) return t("museum.say.ready", { n: lanes.asked.value.prompts.length });
  const said = [whatWasChosen(now)];
  const found = objectedAt(now.logs[1], now.step);
  const before = now.step > 1 ? objectedAt(now.logs[1], now.step - 1) : "";
  if (found)
    said.push(
      found === before
        ? sentences([t("museum.say.objection", { text: found }), t("museum.say.still")])
        : t("museum.say.objection", { text: found }),
    );
  const over = lanes.phase.value === "done" && now.step === now.last;
  if (over && !now.logs[1].records.some((record) => objectionsIn(record).length)) said.push(t("museum.say.silent"));
  return sentences(said);
}

function whatWasChosen({ logs, step, seqs }) {
  const first = seqs.find((seq) => seq.difference?.step === step);
  if (first) {
    const [healthy, faulty] = first.lanes.map((lane) => tokenWord(lane[first.difference.place]));
    return t("museum.say.first", {
      step,
      name: seqName(first.seq_id),
      place: first.difference.place + 1,
      healthy,
      faulty,
    });
  }
  const [healthy, faulty] = logs.map((log) =>
    tookStep(log, step)
      ? (log.records[recordAt(log, step)].outputs ?? [])
          .map((o) => t("museum.say.token", { token: labelText(loneLabel(o.token_bytes)) }))
          .join(t("museum.say.comma"))
      : "",
  );
  if (healthy !== faulty)
    return t("museum.say.differ", {
      step,
      healthy: healthy || t("museum.say.nothing"),
      faulty: faulty || t("museum.say.nothing"),
    });
  return healthy ? t("museum.say.same", { step, tokens: healthy }) : t("museum.say.no_token", { step });
}
