// Placement: how many GPUs serve a demand, with prefill and decode apart, side by side in a node, or together.

import { useRef } from "../../../../vendor/preact/hooks.js";
import { html } from "../../../kit/html.js";
import { grouped, inLanguage, secondsText, t } from "../../../tell/words.js";
import { useAnswer } from "../../answer.js";
import { Choose, Count, Slider } from "../../controls.js";
import { inputs, name, number } from "../../inputs.js";
import { ScaleNumber } from "../../number.js";
import { Cluster } from "./cluster.js";
import { Trial } from "./trial.js";

/** Counts and their least. @type {Record<string, [initial: number, least: number]>} */
const COUNTS = {
  p_nodes: [4, 1],
  p_node_gpus: [8, 1],
  p_network: [25, 0],
  p_prompt_tokens: [512, 1],
  p_output_tokens: [128, 2],
};

/** @type {Record<string, {initial: number, least: number, most: number, step: number}>} */
const SLIDERS = {
  p_rate: { initial: 10, least: 1, most: 100, step: 1 },
  p_ttft: { initial: 0.25, least: 0.05, most: 5, step: 0.05 },
  p_tpot: { initial: 0.1, least: 0.01, most: 0.3, step: 0.005 },
};

const CHOICES = ["p_model", "p_prefill_gpu", "p_decode_gpu"];

/** @type {import("../../../state/settings.js").SettingTable} */
export const TABLE = {
  ...Object.fromEntries(CHOICES.map((id) => [id, { type: name, initial: "", place: true }])),
  ...Object.fromEntries(Object.entries(COUNTS).map(([id, [initial]]) => [id, { type: number, initial, place: true }])),
  ...Object.fromEntries(
    Object.entries(SLIDERS).map(([id, { initial }]) => [id, { type: number, initial, place: true }]),
  ),
};

const values = inputs(TABLE);

/**
 * As `engine/simulate/placement.py` and `app/scale/placement.py` have it.
 *
 * @typedef {"prefill" | "decode" | "mixed"} Kind
 * @typedef {{
 *   kind: Kind, gpu: string, tensor_parallel: number, stages: number, goodput: number, seconds: number, batch: number,
 *   chunk: number, replicas: number
 * }} Option
 * @typedef {{
 *   options: Option[], gpus: number, goodput_per_gpu: number, network_share: number, transfer_seconds: number,
 *   layout: {nodes: Kind[][]}
 * }} Placement
 * @typedef {{
 *   way: string, placement: Placement | null, numbers: import("../../number.js").Derived[],
 *   refused: Record<string, string> | null
 * }} Found
 * @typedef {{id: string, name: string}} Choice
 * @typedef {{
 *   models: Choice[], gpus: Choice[], ways: Found[], source: string, times_source: string,
 *   asked: {share: number}
 * }} Answer
 */

export function Section() {
  const asked = Object.fromEntries(Object.entries(values).map(([id, held]) => [id.slice(2), held.value]));
  /** @type {{value: Answer | null, problem: string | null}} */
  const { value, problem } = useAnswer("placement", asked);
  const answered = useRef(/** @type {Answer | null} */ (null)); // what cannot be leaves the lists to choose anew
  answered.current = value ?? answered.current;
  const lists = answered.current;
  const choice = (/** @type {string} */ id, /** @type {Choice[]} */ choices) =>
    html`<${Choose} key=${id} section="placement" id=${id} held=${values[id]} choices=${choices} />`;
  return html`<div class="scale-controls">
      ${choice("p_model", lists?.models ?? [])} ${choice("p_prefill_gpu", lists?.gpus ?? [])}
      ${choice("p_decode_gpu", lists?.gpus ?? [])}
      ${Object.entries(COUNTS).map(
        ([id, [, least]]) =>
          html`<${Count} key=${id} section="placement" id=${id} held=${values[id]} least=${least} />`,
      )}
      ${Object.entries(SLIDERS).map(
        ([id, ends]) => html`<${Slider} key=${id} section="placement" id=${id} held=${values[id]} ...${ends} />`,
      )}
    </div>
    ${problem ? html`<p class="scale-problem" role="alert">${problem}</p>` : null}
    ${value ? html`<${Ways} answer=${value} asked=${asked} />` : null}`;
}

/** @param {{answer: Answer, asked: Record<string, unknown>}} props */
function Ways({ answer, asked }) {
  const served = answer.ways.flatMap(({ placement }) => (placement ? [placement.gpus] : []));
  return html`${answer.ways.map(
    ({ way, placement, numbers, refused }) => html`<article key=${way} class="scale-way" data-way=${way}>
      <h3>${t(`scale.placement.${way}`)}</h3>
      <p class="hint">${t(`scale.placement.${way}.hint`)}</p>
      ${
        placement
          ? html`<p>
                <b class="scale-total">${t("scale.placement.gpus", { gpus: grouped(placement.gpus) })}</b>${" "}
                ${placement.gpus === Math.min(...served) ? t("scale.placement.fewest") : ""}${" "}
                ${t("scale.placement.per_gpu", { rate: three(placement.goodput_per_gpu) })}
              </p>
              <${Cluster} placement=${placement} nodes=${asked.nodes} gpus=${asked.node_gpus} />
              <${Instances} placement=${placement} gpus=${answer.gpus} way=${way} />
              <${Moved} placement=${placement} />
              <details class="scale-numbers">
                <summary>${t("scale.placement.numbers")}</summary>
                ${numbers.map((one) => html`<${ScaleNumber} key=${one.id} number=${one} section="placement" />`)}
              </details>
              <${Trial} way=${way} asked=${asked} share=${answer.asked.share} />`
          : html`<p class="scale-problem">${inLanguage(refused ?? {})}</p>`
      }
    </article>`,
  )}
  <p class="hint">${t("scale.placement.source", { source: answer.source, times: answer.times_source })}</p>`;
}

/** @param {{placement: Placement, gpus: Choice[], way: string}} props */
function Instances({ placement, gpus, way }) {
  const columns = ["instances", "gpu", "split", "stages", "goodput", "seconds", "batch"];
  return html`<div class="scale-wide" tabindex="0" role="region" aria-label=${t(`scale.placement.${way}`)}>
    <table class="scale-table">
      <thead>
        <tr>
          <th scope="col">${t("scale.placement.kind")}</th>
          ${columns.map((id) => html`<th key=${id} scope="col">${t(`scale.placement.${id}`)}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${placement.options.map(
          (one) => html`<tr key=${one.kind} data-kind=${one.kind}>
            <th scope="row">
              <i class="scale-gpu" data-kind=${one.kind}></i> ${t(`scale.placement.kind.${one.kind}`)}
            </th>
            <td>${one.replicas}</td>
            <td>${gpus.find(({ id }) => id === one.gpu)?.name ?? one.gpu}</td>
            <td>${one.tensor_parallel}</td>
            <td>${one.stages}</td>
            <td>${three(one.goodput)}</td>
            <td>${secondsText(one.seconds)}</td>
            <td>${one.kind === "prefill" ? "–" : one.batch}</td>
          </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

/** @param {{placement: Placement}} props */
function Moved({ placement }) {
  if (!placement.network_share) return null;
  return html`<p class="hint">
    ${t("scale.placement.moved", {
      share: three(100 * placement.network_share),
      seconds: secondsText(placement.transfer_seconds),
    })}
  </p>`;
}

/** @param {number} value */
const three = (value) => grouped(Number(value.toPrecision(3)));
