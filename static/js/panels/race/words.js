// Texts of the race: the result of a step, and why time differs less than work.

import { bytesText, grouped, secondsText, t } from "../../i18n/words.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { stepRecords } from "../../runs/steps.js";
import { differsAt, labelsOf } from "../../runs/tokens.js";
import { choices, placeholderText, verdict } from "../../runs/words.js";
import { cumulativeCopied, expectedCopied, laneAt, timeAgainstWork } from "./figures.js";
import { names, race, racing } from "./model.js";

/** @import {TraceLog} from "../../core/log.js" */
/** @import {Race} from "./figures.js" */

const MAX_NOISE = 3; // multiple of the median; slower steps are attributed to the machine
const MIN_FOLLOWING = 0.7; // share of the operations' ratio; a larger time ratio counts as near

/** Sentence about the shown step of the race. @param {Race | null} now */
export function raceSentence(now) {
  const notReady = placeholderText(race);
  if (notReady !== null || !now) return notReady ?? "";
  if (racing.value === "caches") return copySentence(now);
  if (racing.value === "models") return modelSentence(now);
  if (racing.value === "drafts") return draftSentence(now);
  const [none, , paged] = now.lanes;
  const [chosen] = now.tokens.lanes;
  if (now.step === 0) return t("race.say.ready", { n: promptLength() });
  if (now.finished && now.step === race.numSteps.value && race.phase.value === "done") return endSentence(now);
  const values = { step: now.step, n: none.computed, again: none.computed - paged.computed, m: paged.computed };
  const place = chosen.length - 1;
  if (now.tokens.difference && now.tokens.difference.place <= place)
    return t("race.say.step_differs", { ...values, choices: choices(names(), now.tokens.lanes, place) });
  return t(now.step === 1 ? "race.say.first" : "race.say.step", { ...values, token: labelsOf(chosen)[place] });
}

/** Sentence for lanes that differ only in the bytes that they copy. @param {Race} now */
function copySentence({ step, lanes, tokens, finished }) {
  if (step === 0) return t("race.caches.ready", { n: promptLength() });
  const list = (/** @type {(lane: typeof lanes[0]) => number} */ figure) =>
    lanes.map((lane, i) => t("race.caches.one", { name: names()[i], bytes: bytesText(figure(lane)) }));
  const [chosen] = tokens.lanes;
  const apart = tokens.difference ? t("race.caches.differ", { place: tokens.difference.place + 1 }) : "";
  const values = { step, token: labelsOf(chosen)[chosen.length - 1], count: chosen.length, apart };
  if (finished && step === race.numSteps.value && race.phase.value === "done") {
    const [copied, held] = [list((lane) => lane.totalCopied), list((lane) => lane.held)];
    return t("race.caches.end", { ...values, copied: copied.join(t("runs.comma")), kept: held.join(t("runs.comma")) });
  }
  return t("race.caches.step", { ...values, copied: list((lane) => lane.copied ?? 0).join(t("runs.comma")) });
}

/**
 * Sentence for lanes with different models, which hold equally many blocks but generate different texts.
 * @param {Race} now
 */
function modelSentence({ step, lanes, tokens, finished }) {
  if (step === 0) return t("race.caches.ready", { n: promptLength() });
  const isOver = finished && step === race.numSteps.value && race.phase.value === "done";
  const found = isOver ? (race.logs.value ?? []).map((log) => laneAt(log, stepRecords(log).length)) : lanes;
  const held = found.map((lane, i) => t("race.caches.one", { name: names()[i], bytes: bytesText(lane.held) }));
  const states = Math.max(...found.map((lane) => lane.states));
  const state = states ? t("race.models.state", { bytes: bytesText(states) }) : "";
  const blocks = Math.max(...found.map((lane) => lane.blocks));
  const values = { step, held: held.join(t("runs.comma")), blocks, state };
  if (isOver) {
    const apart = tokens.difference ? t("race.models.apart", { place: tokens.difference.place + 1 }) : "";
    return t("race.models.end", { ...values, ratio: ratioText(found[0].perToken / found[2].perToken), apart });
  }
  const place = Math.max(...tokens.lanes.map((lane) => lane.length)) - 1;
  if (!differsAt(tokens, place))
    return t("race.models.step_same", { ...values, token: labelsOf(tokens.lanes[0])[place] });
  return t("race.models.step", { ...values, choices: choices(names(), tokens.lanes, place) });
}

/**
 * Sentence for lanes with and without speculative decoding: the length of each text, and the tokens computed for it.
 * @param {Race} now
 */
function draftSentence({ step, lanes, tokens }) {
  if (step === 0) return t("race.say.ready", { n: promptLength() });
  const each = lanes.map(({ totalComputed }, i) =>
    t("race.drafts.one", { name: names()[i], n: tokens.lanes[i].length, computed: grouped(totalComputed) }),
  );
  const apart = tokens.difference ? t("race.caches.differ", { place: tokens.difference.place + 1 }) : "";
  return t("race.drafts.step", { step, each: each.join(t("runs.comma")), apart });
}

/** Note on the omissions in the figures of the draft lanes. */
const DraftNote = () => html`<p class="race-why hint" id="race-why">${t("race.drafts.note")}</p>`;

/**
 * Note on the bytes of a token's K and V in each model.
 * @param {{logs: TraceLog[] | null}} props
 */
function ModelNote({ logs }) {
  if (!logs) return html`<p class="race-why hint" id="race-why"></p>`;
  const { num_layers: layers, head_dim: dim, num_kv_heads: heads } = logs[0].header.model;
  const perToken = (/** @type {TraceLog} */ log) => log.header.kv_bytes_per_token;
  const each = logs.map((log, i) => {
    const { num_kv_heads: n, num_layers, state_bytes = 0 } = log.header.model;
    const values = { name: names()[i], n, layers: num_layers, state: grouped(state_bytes) };
    return t(state_bytes ? "race.models.one_state" : "race.models.one", { ...values, bytes: grouped(perToken(log)) });
  });
  const size = perToken(logs[0]) / (2 * layers * heads * dim);
  return html`<p class="race-why hint" id="race-why">
    ${t("race.models.note", { layers, dim, size, each: each.join(t("runs.comma")) })}${" "}
    <${Fidelity} kind="derived" formula=${t("race.formula.cache")} />
  </p>`;
}

/** Note beside the figures of the current set. @param {{logs: TraceLog[] | null, step: number}} props */
export function Note(props) {
  const found = { strategies: TimeNote, caches: CopyNote, drafts: DraftNote, models: ModelNote }[racing.value];
  return html`<${found} ...${props} />`;
}

/** Text that states whether the lanes sampled the same tokens. @param {Race["tokens"]} aligned */
export function agreement(aligned) {
  const { difference } = aligned;
  if (racing.value !== "models" || !difference) return verdict(names(), aligned);
  return t("race.models.verdict", { place: difference.place + 1 });
}

/** @param {Race} now */
function endSentence({ step, lanes: [none, , paged], tokens }) {
  const values = { step, none: grouped(none.totalComputed), cached: grouped(paged.totalComputed) };
  if (tokens.difference) return t("race.say.end_differs", { ...values, place: tokens.difference.place + 1 });
  const ratio = ratioText(none.totalComputed / paged.totalComputed);
  return t("race.say.end", { ...values, ratio, count: tokens.lanes[2].length });
}

/** Number of prompt tokens of the lanes. */
export function promptLength() {
  const sequences = race.logs.value?.[0].tail.sequences.values() ?? [];
  return [...sequences][0]?.num_prompt_tokens ?? 0;
}

/** @param {number} value */
const ratioText = (value) => value.toFixed(value < 10 ? 1 : 0);

/**
 * Note with this run's numbers on why times differ less than operations.
 * @param {{logs: TraceLog[] | null, step: number}} props
 */
export function TimeNote({ logs, step }) {
  const found = logs ? timeAgainstWork(logs[0], logs[2], step) : null;
  if (!found) return html`<p class="race-why hint" id="race-why"></p>`;
  const { plainStep, cachedStep } = found;
  const key = found.time >= MIN_FOLLOWING * found.flops ? "race.why.near" : "race.why.less";
  const isNoisy = found.slowest > MAX_NOISE * cachedStep.seconds;
  return html`<p class="race-why hint" id="race-why">
    ${t(key, {
      flops: ratioText(found.flops),
      time: ratioText(found.time),
      m: cachedStep.tokens,
      one: secondsText(cachedStep.seconds),
      many: Math.round(plainStep.tokens),
      more: secondsText(plainStep.seconds),
    })}
    ${isNoisy ? ` ${t("race.why.noise", { slowest: secondsText(found.slowest) })}` : ""}${" "}
    <${Fidelity} kind="derived" formula=${t("race.why.formula")} />
  </p>`;
}

/**
 * Note with this run's numbers on how copies are counted, with the formula.
 * @param {{logs: TraceLog[] | null, step: number}} props
 */
export function CopyNote({ logs, step }) {
  if (!logs || !step) return html`<p class="race-why hint" id="race-why"></p>`;
  const perToken = logs[0].header.kv_bytes_per_token;
  const values = {
    step,
    bytes: grouped(perToken),
    formula: grouped(expectedCopied(promptLength(), step) * perToken),
    counted: grouped(cumulativeCopied(logs[0])[step - 1] ?? 0),
  };
  return html`<p class="race-why hint" id="race-why">
    ${t("race.caches.note", values)} <${Fidelity} kind="captured" />
  </p>`;
}
