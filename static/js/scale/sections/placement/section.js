// Section "Placement": GPUs needed for a demand, with prefill and decode on separate nodes, on the same node, or on the
// same GPUs.

import { useEffect, useRef, useState } from "../../../../vendor/preact/hooks.js";
import { refusalText } from "../../../i18n/language.js";
import { grouped, inLanguage, secondsText, t } from "../../../i18n/words.js";
import { html } from "../../../kit/html.js";
import { Choose, Count, Slider } from "../../controls.js";
import { inputs, name, numberOf } from "../../inputs.js";
import { ScaleNumber } from "../../number.js";
import { Table } from "../../table.js";
import { useResult } from "../../use_result.js";

/**
 * @typedef {{
 *   num_requests: number, within_ttft: number, within_tpot: number, within_both: number, streamed_ttft: number
 * }} Tried
 * @param {{way: string, demand: Record<string, unknown>, share: number}} props
 */
function Trial({ way, demand, share }) {
  const [state, setState] = useState(/** @type {{tried?: Tried, problem?: string, runs?: boolean}} */ ({}));
  const given = Object.entries({ ...demand, way }).filter(([, value]) => value !== "");
  const query = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  useEffect(() => setState({}), [query]); // trial results belong to the previous demand
  const run = async () => {
    setState({ runs: true });
    try {
      const answer = await fetch(`api/scale/tried?${query}`);
      const body = await answer.json();
      setState(answer.ok ? { tried: body.tried } : { problem: refusalText(body.error) });
    } catch {
      setState({ problem: t("error.no_answer") });
    }
  };
  return html`<p class="scale-trial" aria-live="polite">
    <button class="tool" disabled=${state.runs} onClick=${run}>
      ${t(state.runs ? "scale.placement.trying" : "scale.placement.try")}
    </button>${" "}
    ${state.tried ? html`<span data-tried=${state.tried.within_both}>${triedText(state.tried, share)}</span>` : null}
    ${state.problem ? html`<span class="scale-problem">${state.problem}</span>` : null}
  </p>`;
}

/** @param {Tried} tried @param {number} share */
function triedText(tried, share) {
  return t("scale.placement.tried", {
    requests: tried.num_requests,
    ttft: percent(tried.within_ttft),
    tpot: percent(tried.within_tpot),
    streamed: percent(tried.streamed_ttft),
    share: percent(share),
  });
}

/** @param {number} share */
const percent = (share) => String(Number((100 * share).toFixed(1)));

const MAX_NODES = 16; // drawn
const MIN_NODES = 4; // drawn even if free

/** @param {{placement: Placement, nodes: number, gpus: number}} props */
function Cluster({ placement, nodes, gpus }) {
  const { options, layout } = placement;
  const used = layout.nodes.length;
  const shown = Array.from({ length: Math.min(MAX_NODES, Math.max(used, Math.min(nodes, MIN_NODES))) }, (_, at) => {
    const node = layout.nodes[at] ?? [];
    return [...node, ...Array(Math.max(0, gpus - node.length)).fill("free")];
  });
  const counts = options.map((one) => `${one.replicas * one.tensor_parallel * one.stages} ${kindText(one.kind)}`);
  const label = t("scale.placement.cluster", { used, counts: counts.join(", ") });
  return html`<div class="scale-cluster" role="img" aria-label=${label}>
    ${shown.map(
      (node, at) => html`<span key=${at} class="scale-node">
        ${node.map((kind, i) => html`<i key=${i} class="scale-gpu" data-kind=${kind}></i>`)}
      </span>`,
    )}
    ${
      used > MAX_NODES
        ? html`<span class="hint">${t("scale.placement.more", { nodes: used - MAX_NODES })}</span>`
        : null
    }
  </div>`;
}

/** @param {string} kind */
const kindText = (kind) => t(`scale.placement.kind.${kind}`);

/** Initial values of the counts. @type {Record<string, number>} */
const COUNTS = { p_nodes: 4, p_node_gpus: 8, p_network: 25, p_prompt_tokens: 512, p_output_tokens: 128 };

/** @type {Record<string, {initial: number, least: number, most: number, step: number}>} */
const SLIDERS = {
  p_rate: { initial: 10, least: 1, most: 100, step: 1 },
  p_ttft: { initial: 0.25, least: 0.05, most: 5, step: 0.05 },
  p_tpot: { initial: 0.1, least: 0.01, most: 0.3, step: 0.005 },
};

/** @param {string} id */
const fieldOf = (id) => id.slice("p_".length);

/** @param {string} id @param {number} initial */
const numberRow = (id, initial) => ({ type: numberOf("placement", fieldOf(id)), initial, place: true });

const CHOICES = ["p_model", "p_prefill_gpu", "p_decode_gpu"];

/** @type {import("../../../state/settings.js").SettingTable} */
export const TABLE = {
  ...Object.fromEntries(CHOICES.map((id) => [id, { type: name, initial: "", place: true }])),
  ...Object.fromEntries(Object.entries(COUNTS).map(([id, initial]) => [id, numberRow(id, initial)])),
  ...Object.fromEntries(Object.entries(SLIDERS).map(([id, { initial }]) => [id, numberRow(id, initial)])),
};

const values = inputs(TABLE);

/**
 * As defined in `engine/simulate/placement.py` and `app/scale/placement.py`.
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
 * @typedef {{id: string, name: string}} ListOption
 * @typedef {{
 *   models: ListOption[], gpus: ListOption[], ways: Found[], source: string, times_source: string,
 *   asked: {share: number}
 * }} Answer
 */

export function Section() {
  const demand = Object.fromEntries(Object.entries(values).map(([id, held]) => [fieldOf(id), held.value]));
  /** @type {{value: Answer | null, problem: string | null}} */
  const { value, problem } = useResult("placement", demand);
  // after an invalid input the previous lists stay available
  const answered = useRef(/** @type {Answer | null} */ (null));
  answered.current = value ?? answered.current;
  const lists = answered.current;
  const choice = (/** @type {string} */ id, /** @type {ListOption[]} */ choices) =>
    html`<${Choose} key=${id} section="placement" id=${id} held=${values[id]} choices=${choices} />`;
  return html`<div class="scale-controls">
      ${choice("p_model", lists?.models ?? [])} ${choice("p_prefill_gpu", lists?.gpus ?? [])}
      ${choice("p_decode_gpu", lists?.gpus ?? [])}
      ${Object.keys(COUNTS).map(
        (id) => html`<${Count} key=${id} section="placement" id=${id} param=${fieldOf(id)} held=${values[id]} />`,
      )}
      ${Object.entries(SLIDERS).map(
        ([id, ends]) => html`<${Slider} key=${id} section="placement" id=${id} param=${fieldOf(id)} held=${values[id]}
          ...${ends} />`,
      )}
    </div>
    ${problem ? html`<p class="scale-problem" role="alert">${problem}</p>` : null}
    ${value ? html`<${Ways} answer=${value} demand=${demand} />` : null}`;
}

/** @param {{answer: Answer, demand: Record<string, unknown>}} props */
function Ways({ answer, demand }) {
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
              <${Cluster} placement=${placement} nodes=${demand.nodes} gpus=${demand.node_gpus} />
              <${Instances} placement=${placement} gpus=${answer.gpus} way=${way} />
              <${Moved} placement=${placement} />
              <details class="scale-numbers">
                <summary>${t("scale.placement.numbers")}</summary>
                ${numbers.map((one) => html`<${ScaleNumber} key=${one.id} number=${one} section="placement" />`)}
              </details>
              <${Trial} way=${way} demand=${demand} share=${answer.asked.share} />`
          : html`<p class="scale-problem">${inLanguage(refused ?? {})}</p>`
      }
    </article>`,
  )}
  <p class="hint">${t("scale.placement.source", { source: answer.source, times: answer.times_source })}</p>`;
}

/** @param {{placement: Placement, gpus: ListOption[], way: string}} props */
function Instances({ placement, gpus, way }) {
  const columns = ["kind", "instances", "gpu", "split", "stages", "goodput", "seconds", "batch"];
  const rows = placement.options.map((one) => ({
    key: one.kind,
    "data-kind": one.kind,
    cells: [
      html`<i class="scale-gpu" data-kind=${one.kind}></i> ${t(`scale.placement.kind.${one.kind}`)}`,
      one.replicas,
      gpus.find(({ id }) => id === one.gpu)?.name ?? one.gpu,
      one.tensor_parallel,
      one.stages,
      three(one.goodput),
      secondsText(one.seconds),
      one.kind === "prefill" ? "–" : one.batch,
    ],
  }));
  return html`<${Table} label=${t(`scale.placement.${way}`)} heads=${columns.map((id) => t(`scale.placement.${id}`))}
    rows=${rows} />`;
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
