// The race in words: what a step did, whether the tokens agree, and why time differs less than work.

import { labelText, tokenLabels } from "../../core/labels.js";
import { html } from "../../kit/html.js";
import { Fidelity } from "../../kit/parts.js";
import { timeAgainstWork } from "../../runs/race.js";
import { grouped, secondsText, t } from "../../tell/words.js";
import { race } from "./model.js";

const NOISY = 3; // a step so many times the median is the machine's doing, not the model's
const NEAR = 0.7; // from this share of the ratio of operations on, time follows them

/** One sentence on the race as it is shown. */
export function raceSentence(now) {
  const problem = race.problem.value;
  if (problem) return problem.message ?? t("race.lost");
  if (!now) return t(race.phase.value === "opening" ? "race.say.opening" : "race.say.start");
  const [none, , paged] = now.lanes;
  if (now.step === 0) return t("race.say.ready", { n: promptLength(race.logs.value[0]) });
  if (now.finished && now.step === race.numSteps.value && race.phase.value === "done") return endSentence(now);
  const values = { step: now.step, n: none.computed, again: none.computed - paged.computed, m: paged.computed };
  const place = none.tokenIds.length - 1;
  if (now.difference !== null && now.difference <= place)
    return t("race.say.step_differs", { ...values, choices: choices(now.lanes, place) });
  const token = labelText(tokenLabels(none.tokenBytes)[place]);
  return t(now.step === 1 ? "race.say.first" : "race.say.step", { ...values, token });
}

function endSentence(now) {
  const [none, , paged] = now.lanes;
  const values = { step: now.step, none: grouped(none.totalComputed), cached: grouped(paged.totalComputed) };
  if (now.difference !== null) return t("race.say.end_differs", { ...values, place: now.difference + 1 });
  return t("race.say.end", {
    ...values,
    ratio: ratioText(none.totalComputed / paged.totalComputed),
    count: paged.tokenIds.length,
  });
}

/** Who chose what at output `place`: "no cache “月”, contiguous “日”, paged “日”". */
export function choices(lanes, place) {
  return lanes
    .map((lane) => {
      const name = t(`race.${lane.strategy}`);
      if (place >= lane.tokenIds.length) return t("race.choice_none", { name });
      return t("race.choice", { name, token: labelText(tokenLabels(lane.tokenBytes)[place]) });
    })
    .join(t("race.comma"));
}

export const promptLength = (log) => [...log.tail.sequences.values()][0]?.num_prompt_tokens ?? 0;

const ratioText = (value) => value.toFixed(value < 10 ? 1 : 0);

/** Why the times differ less than the operations do, with this run's numbers. */
export function TimeNote({ logs, step }) {
  const found = logs ? timeAgainstWork(logs[0], logs[2], step) : null;
  if (!found) return html`<p class="race-why hint" id="race-why"></p>`;
  const { plainStep, cachedStep } = found;
  const key = found.time >= NEAR * found.flops ? "race.why.near" : "race.why.less";
  const noisy = found.slowest > NOISY * cachedStep.seconds;
  return html`<p class="race-why hint" id="race-why">
    ${t(key, {
      flops: ratioText(found.flops),
      time: ratioText(found.time),
      m: cachedStep.tokens,
      one: secondsText(cachedStep.seconds),
      many: Math.round(plainStep.tokens),
      more: secondsText(plainStep.seconds),
    })}
    ${noisy ? ` ${t("race.why.noise", { slowest: secondsText(found.slowest) })}` : ""} <${Fidelity} kind="derived" formula=${t("race.why.formula")} />
  </p>`;
}
