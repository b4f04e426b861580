// Section "Compute or bandwidth": what limits a prefill and a decode step, and the error of that prediction.

import { useRef } from "../../../../vendor/preact/hooks.js";
import { grouped, secondsText, t } from "../../../i18n/words.js";
import { html } from "../../../kit/html.js";
import { Choose, List, Slider } from "../../controls.js";
import { inputs, list, name, numberOf } from "../../inputs.js";
import { decimalText, ScaleNumber } from "../../number.js";
import { Table } from "../../table.js";
import { useResult } from "../../use_result.js";
import { Decode, Measured, Prefill, Roofs, Saturated } from "./plots.js";

/** @import {Derived} from "../../number.js" */

/** @type {import("../../../state/settings.js").SettingTable} */
export const TABLE = {
  r_model: { type: name, initial: "", place: true },
  r_gpu: { type: name, initial: "", place: true },
  r_dtype: { type: name, initial: "", place: true },
  r_batch: { type: numberOf("roofline", "batch"), initial: 16, place: true },
  r_context: { type: numberOf("roofline", "context"), initial: 256, place: true },
  r_batches: { type: list, initial: "", place: true },
  r_contexts: { type: list, initial: "", place: true },
};

const values = inputs(TABLE);
const OURS = new Set(["here", "recorded"]); // this machine, measured now or recorded while idle
const MAX_CONTEXT = 1024; // end of the slider; its number field goes up to the model's limit

/**
 * As defined in `app/scale/steps.py`.
 *
 * @typedef {"prefill" | "decode"} Phase
 * @typedef {{
 *   batch: number, tokens: number, context: number, intensity: number, flops_per_second: number,
 *   bound: "compute" | "bandwidth", seconds: number | null, expected: [number, number] | null
 * }} StepPoint
 * @typedef {{
 *   context: number, batch: number | null, limit: Derived, exact: Derived | null, evenly: number | null
 * }} Crossing
 * @typedef {[least: number | null, most: number | null]} Span
 * @typedef {{variant: string, tokens: number, measured: number, low: number, high: number, predicted: number}} Pair
 * @typedef {{phase: Phase, points: Pair[], median: number, least: number, most: number}} PredictionError
 * @typedef {{phase: Phase, variant: string, batch: number, tokens: number, intensity: number,
 *   flops_per_second: number}} Dot
 * @typedef {{
 *   step: StepPoint, intensity: Derived, seconds: Derived | null, experts: Derived | null, evenly: Derived | null,
 *   latent: Derived | null
 * }} Chosen
 * @typedef {{
 *   batch: number, tokens: number, rate: number, low: number, high: number, fitted: number, bound: number | null
 * }} RatePoint
 * @typedef {{
 *   share: number, tokens: Record<string, number>, measured_tokens: Record<string, number>,
 *   bound_tokens: Record<string, number>, points: RatePoint[],
 *   median_error: number, worst_error: number
 * }} Saturation
 * @typedef {{id: string, name: string}} ListOption
 * @typedef {{
 *   model: string, max_position: number, models: ListOption[], gpus: ListOption[],
 *   dtypes: string[], dtype: string, experts_in: string | null,
 *   roof: {flops_per_second: number, bytes_per_second: number, source: string}, ridge: Derived, is_here: boolean,
 *   sources: import("../../sources.js").SourceFacts[],
 *   decode: {context: number, points: StepPoint[], crossing: Crossing, expected: Span | null}[],
 *   never_from: number | null,
 *   prefill: {batch: number, points: StepPoint[], crossing: number | null, expected: Span | null}[],
 *   chosen: Record<Phase, Chosen>, errors: Record<Phase, PredictionError | null>,
 *   error_source: {kind: "record" | "card" | "cards", on: string} | null, dots: Dot[],
 *   measured_on: Record<string, string>, saturation: Saturation | null
 * }} Answer
 */

export function Section() {
  const query = Object.fromEntries(Object.entries(values).map(([id, held]) => [id.slice(2), held.value]));
  /** @type {{value: Answer | null, problem: string | null}} */
  const { value, problem } = useResult("roofline", query);
  // after an invalid input the previous lists stay available
  const answered = useRef(/** @type {Answer | null} */ (null));
  answered.current = value ?? answered.current;
  const lists = answered.current;
  const choice = (/** @type {string} */ id, /** @type {ListOption[]} */ choices) =>
    html`<${Choose} section="roofline" id=${id} held=${values[id]} choices=${choices.map(named)} />`;
  return html`<div class="scale-controls">
      ${choice("r_model", lists?.models ?? [])} ${choice("r_gpu", lists?.gpus ?? [])}
      ${lists?.dtypes.length ? html`<${Dtype} dtypes=${lists.dtypes} chosen=${lists.dtype} />` : null}
      <${Slider} section="roofline" id="r_batch" param="batch" held=${values.r_batch} least=${1} most=${256}
        step=${1} />
      <${Slider} section="roofline" id="r_context" param="context" held=${values.r_context} least=${1}
        most=${MAX_CONTEXT} step=${1} />
      <${List} section="roofline" id="r_batches" held=${values.r_batches}
        usual=${lists?.decode[0]?.points.map(({ batch }) => batch) ?? []} />
      <${List} section="roofline" id="r_contexts" held=${values.r_contexts}
        usual=${lists?.decode.map(({ context }) => context) ?? []} />
    </div>
    ${problem ? html`<p class="scale-problem" role="alert">${problem}</p>` : null}
    ${value ? html`<${Found} answer=${value} />` : null}`;
}

/**
 * Choice of the data type of the GPU's multiplications. Default: the model's data type if the GPU supports it.
 * @param {{dtypes: string[], chosen: string}} props
 */
function Dtype({ dtypes, chosen }) {
  const held = values.r_dtype;
  const first = held.value ? [] : [chosen];
  const choices = [...new Set([...first, ...dtypes])].map((id) => ({ id, name: id }));
  return html`<${Choose} section="roofline" id="r_dtype" held=${held} choices=${choices} />`;
}

/** @param {{answer: Answer}} props */
function Found({ answer }) {
  return html`<${Roofs} answer=${answer} />
    <p class="hint" id="scale-roof">
      ${t("scale.roofline.roof", {
        flops: decimalText(answer.roof.flops_per_second, "FLOP/s"),
        bytes: decimalText(answer.roof.bytes_per_second, "B/s"),
        dtype: answer.dtype,
        source: OURS.has(answer.roof.source) ? t(`scale.roofline.source.${answer.roof.source}`) : answer.roof.source,
      })}
      ${answer.experts_in ? ` ${t("scale.roofline.experts_in", { form: answer.experts_in.toUpperCase() })}` : ""}
    </p>
    <${ScaleNumber} number=${answer.ridge} section="roofline" sources=${answer.sources} />
    ${(/** @type {Phase[]} */ (["decode", "prefill"])).map(
      (phase) => html`<${OneStep} key=${phase} phase=${phase} answer=${answer} />`,
    )}
    <h3>${t("scale.roofline.decode")}</h3>
    <${Decode} answer=${answer} />
    <${Crossings} answer=${answer} />
    <h3>${t("scale.roofline.prefill")}</h3>
    <${Prefill} answer=${answer} />
    <${PrefillCrossings} answer=${answer} />
    <h3>${t("scale.roofline.errors")}</h3>
    <${Errors} answer=${answer} />
    <${Filled} answer=${answer} />`;
}

/** @param {{phase: Phase, answer: Answer}} props */
function OneStep({ phase, answer }) {
  const { step, intensity, seconds, experts, evenly, latent } = answer.chosen[phase];
  const { sources } = answer;
  return html`<div data-phase=${phase}>
    <p>
      <b>${t(`scale.roofline.step.${phase}`, { batch: grouped(step.batch), context: grouped(step.context) })}</b>${" "}
      ${t(`scale.roofline.bound.${step.bound}`)}
    </p>
    <${ScaleNumber} number=${intensity} section="roofline" />
    ${seconds ? html`<${ScaleNumber} number=${seconds} section="roofline" sources=${sources} />` : null}
    ${
      latent
        ? html`<${ScaleNumber} number=${latent} section="roofline" sources=${sources} />
          <p class="hint">${t(`scale.roofline.latent.${phase}`)}</p>`
        : null
    }
    ${
      experts
        ? html`<${ScaleNumber} number=${experts} section="roofline" sources=${sources} />
          ${evenly ? html`<${ScaleNumber} number=${evenly} section="roofline" sources=${sources} />` : null}
          <p class="hint">${t("scale.roofline.experts.hint")}</p>`
        : null
    }
    <p class="hint">
      ${
        step.expected
          ? t(`scale.roofline.expected.${answer.error_source?.kind}`, {
              least: secondsText(step.expected[0]),
              most: secondsText(step.expected[1]),
              on: answer.error_source?.on ?? "",
            })
          : t(`scale.roofline.no_error.${answer.is_here ? "here" : "there"}`)
      }
    </p>
  </div>`;
}

/** @param {{answer: Answer}} props */
function Crossings({ answer }) {
  return html`<ul id="scale-crossings">
    ${answer.decode.map(({ context, crossing, expected }) => {
      const values = { context: grouped(context), batch: grouped(crossing.batch ?? 0) };
      return html`<li key=${context} data-batch=${crossing.batch ?? "never"}>
        ${crossing.batch ? t("scale.roofline.crosses", values) : t("scale.roofline.never", values)}
        ${
          crossing.batch && crossing.evenly !== crossing.batch
            ? ` ${t("scale.roofline.evenly", { batch: crossing.evenly ? grouped(crossing.evenly) : "–" })}`
            : ""
        }
        ${reached(expected)}
        <${ScaleNumber} number=${crossing.exact ?? crossing.limit} section="roofline" />
      </li>`;
    })}
    </ul>
    <p id="scale-never-from" data-value=${answer.never_from ?? ""}>
      ${
        answer.never_from === null
          ? t("scale.roofline.always", { most: grouped(answer.max_position) })
          : t("scale.roofline.never_from", { context: grouped(answer.never_from) })
      }
    </p>`;
}

/** @param {{answer: Answer}} props */
function PrefillCrossings({ answer }) {
  return html`<ul id="scale-prefill-crossings">
    ${answer.prefill.map(({ batch, crossing, expected }) => {
      const values = { batch: grouped(batch), tokens: grouped(crossing ?? 0) };
      return html`<li key=${batch}>
        ${crossing ? t("scale.roofline.prefill_crosses", values) : t("scale.roofline.prefill_never", values)}
        ${reached(expected)}
      </li>`;
    })}
  </ul>`;
}

/** Return the text for the crossing under measured roofs. @param {Span | null} expected */
function reached(expected) {
  if (!expected) return "";
  const [least, most] = expected.map((one) => (one === null ? t("scale.roofline.nowhere") : grouped(one)));
  return html` <span class="hint">${t("scale.roofline.reached", { least, most })}</span>`;
}

/** @param {{answer: Answer}} props */
function Errors({ answer }) {
  const { errors, error_source: source } = answer;
  const phases = /** @type {Phase[]} */ (["prefill", "decode"]).filter((phase) => errors[phase]);
  if (!phases.length || !source) return html`<p>${t("scale.roofline.no_record")}</p>`;
  return html`<p>${t(`scale.roofline.errors.${source.kind}`, { on: source.on })}</p>
    <${Measured} answer=${answer} />
    <ul id="scale-errors">
      ${phases.map((phase) => {
        const { least, median, most } = /** @type {PredictionError} */ (errors[phase]);
        const of = {
          phase: t(`scale.roofline.${phase}_steps`),
          least: two(least),
          median: two(median),
          most: two(most),
        };
        return html`<li key=${phase} data-phase=${phase}>${t("scale.roofline.error", of)}</li>`;
      })}
    </ul>`;
}

/** @param {{answer: Answer}} props */
function Filled({ answer }) {
  const { saturation } = answer;
  if (!saturation) return null;
  const lengths = Object.keys(saturation.tokens)
    .map(Number)
    .sort((a, b) => a - b);
  const values = {
    share: Math.round(saturation.share * 100),
    processor: answer.measured_on["prefill-two-axes"],
    median: Math.round(saturation.median_error * 100),
    worst: Math.round(saturation.worst_error * 100),
  };
  return html`<h3>${t("scale.roofline.filled")}</h3>
    <p>${t("scale.roofline.filled.lead", values)}</p>
    <${Saturated} answer=${answer} />
    <${Table} id="scale-filled" label=${t("scale.roofline.filled")}
      heads=${["length", "fills", "fills_fitted", "fills_bound"].map((key) => t(`scale.roofline.${key}`, values))}
      rows=${lengths.map((length) => ({
        key: length,
        cells: [
          length,
          grouped(saturation.measured_tokens[length]),
          grouped(Number(saturation.tokens[length].toPrecision(2))),
          saturation.bound_tokens[length] ? grouped(saturation.bound_tokens[length]) : "–",
        ],
      }))} />`;
}

/** @param {ListOption} choice */
const named = ({ id, name: text }) => ({ id, name: OURS.has(text) ? t(`scale.roofline.${text}`) : text });

/** @param {number} value */
const two = (value) => grouped(Number(value.toPrecision(2)));
