// Section "Queues": one GPU, pipeline stages or tensor-parallel GPUs over the request rate, and the goodput of each.

import { useCallback } from "../../../../vendor/preact/hooks.js";
import { grouped, inLanguage, t } from "../../../i18n/words.js";
import { colours } from "../../../kit/colour.js";
import { html } from "../../../kit/html.js";
import { axis } from "../../../kit/plotly.js";
import { Slider } from "../../controls.js";
import { inputs, numberOf } from "../../inputs.js";
import { ScaleNumber, valueText } from "../../number.js";
import { lineAt, Plot } from "../../plot.js";
import { Table } from "../../table.js";
import { useResult } from "../../use_result.js";
import { Goodput, OverDegrees } from "./decode_plots.js";
import { PARAMS, TABLE as SPLIT, Split } from "./split.js";

/** @import {Derived} from "../../number.js" */

const HIGHEST = 4; // upper end of the TTFT axis, in service times
const DASHES = { one: "solid", inter: "dash", intra: "dot" };
const SEQUENCES = { one: 5, inter: 4, intra: 2 };

/** @param {{answer: Answer}} props */
function Curves({ answer }) {
  const drawn = useCallback(() => figure(answer), [answer]);
  return html`<${Plot} id="queues" title=${t("scale.queues.chart")} figure=${drawn} rows=${() => rows(answer)} />`;
}

/** @param {Answer} answer */
function figure({ lines, asked, crossing }) {
  const palette = colours();
  const data = lines.map(({ arrangement, curve }) => ({
    type: "scatter",
    mode: "lines",
    name: t(`scale.queues.${arrangement}`),
    x: curve.map(({ rate }) => rate),
    y: curve.map(({ seconds }) => seconds),
    line: { color: palette.sequences[SEQUENCES[arrangement]], dash: DASHES[arrangement], width: 2 },
  }));
  const layout = {
    xaxis: axis(t("scale.queues.axis.rate"), { rangemode: "tozero" }),
    yaxis: axis(t("scale.queues.axis.ttft"), { range: [0, HIGHEST * asked.service] }),
    shapes: [lineAt("x", asked.rate, "solid"), ...(crossing ? [lineAt("x", crossing.rate, "dot")] : [])],
  };
  return { data, layout };
}

/** @param {Answer} answer */
function rows({ lines }) {
  const found = lines.flatMap(({ arrangement, curve }) =>
    curve.map(({ load, rate, seconds }) => [t(`scale.queues.${arrangement}`), load, rate, seconds]),
  );
  const names = ["arrangement", "load", "axis.rate", "axis.ttft"];
  return [names.map((id) => t(`scale.queues.${id}`)), ...found];
}

/**
 * Query parameters of the server, by name in the link, with the slider's range and step.
 * @type {Record<string, {param: string, least: number, most: number, step: number, initial: number}>}
 */
const SLIDERS = {
  q_rate: { param: "rate", least: 0, most: 20, step: 0.1, initial: 2 },
  q_service: { param: "service", least: 0.01, most: 2, step: 0.01, initial: 0.25 },
  q_gpus: { param: "gpus", least: 2, most: 16, step: 1, initial: 2 },
  q_speedup: { param: "speedup", least: 1.05, most: 16, step: 0.05, initial: 1.5 },
  q_step: { param: "step", least: 0.005, most: 0.5, step: 0.005, initial: 0.05 },
  q_batch: { param: "batch", least: 1, most: 512, step: 1, initial: 128 },
  q_decode_speedup: { param: "decode_speedup", least: 1.05, most: 2, step: 0.05, initial: 1.7 },
  q_output_tokens: { param: "output_tokens", least: 2, most: 2000, step: 1, initial: 64 },
};

/** @type {import("../../../state/settings.js").SettingTable} */
export const TABLE = {
  ...SPLIT,
  ...Object.fromEntries(
    Object.entries(SLIDERS).map(([id, { param, initial }]) => [
      id,
      { type: numberOf("queues", param), initial, place: true },
    ]),
  ),
};

const values = inputs(TABLE);

/**
 * @typedef {"one" | "inter" | "intra"} Arrangement
 * @typedef {{load: number, rate: number, seconds: number}} CurvePoint
 * @typedef {{
 *   arrangement: Arrangement, gpus: number, most_load: number, ttft: Derived | null,
 *   refused: Record<string, string> | null,
 *   curve: CurvePoint[]
 * }} Line
 * @typedef {{
 *   gpus: number, speedup: Derived, intra_latency: Derived, intra_throughput: Derived, inter_latency: number,
 *   inter_throughput: Derived
 * }} Degree
 * @typedef {{arrangement: Arrangement, gpus: number, prefill: number, decode: number, per_gpu: number}} ArrangementRate
 * @typedef {{application: {id: string, model: string, ttft: number, tpot: number}, served: ArrangementRate[]}} Row
 * @typedef {{
 *   asked: Record<string, number>, lines: Line[], crossing: {load: number, rate: number} | null, decode: Degree[],
 *   applications: Row[], split: import("./split.js").SplitAnswer, source: string
 * }} Answer
 */

export function Section() {
  const sliders = Object.entries(SLIDERS).map(([id, { param }]) => [id, param]);
  const query = Object.fromEntries(
    [...sliders, ...Object.entries(PARAMS)].map(([id, param]) => [param, values[id].value]),
  );
  /** @type {{value: Answer | null, problem: string | null}} */
  const { value, problem } = useResult("queues", query);
  return html`<div class="scale-controls">
      ${Object.entries(SLIDERS).map(
        ([id, ends]) => html`<${Slider} key=${id} section="queues" id=${id} held=${values[id]} ...${ends} />`,
      )}
    </div>
    ${problem ? html`<p class="scale-problem" role="alert">${problem}</p>` : null}
    ${value ? html`<${Found} answer=${value} />` : null}`;
}

/** @param {{answer: Answer}} props */
function Found({ answer }) {
  const { crossing, lines } = answer;
  return html`<${Curves} answer=${answer} />
    <p id="scale-crossing">
      ${
        crossing
          ? t("scale.queues.crossing", { load: number4(crossing.load), rate: number4(crossing.rate) })
          : t("scale.queues.no_crossing")
      }
    </p>
    <div id="scale-ttft">
      ${lines.map(({ arrangement, ttft, refused }) =>
        ttft
          ? html`<${ScaleNumber} key=${arrangement} number=${ttft} section="queues" />`
          : html`<p key=${arrangement} class="scale-problem">
              ${t(`scale.queues.${arrangement}`)}: ${inLanguage(refused ?? {})}
            </p>`,
      )}
    </div>
    <${Split} answer=${answer.split} values=${values} />
    <h3>${t("scale.queues.degrees")}</h3>
    <p class="hint">${t("scale.queues.degrees.hint")}</p>
    <${OverDegrees} answer=${answer} what="latency" />
    <${OverDegrees} answer=${answer} what="throughput" />
    <${Degrees} degrees=${answer.decode} />
    <h3>${t("scale.queues.applications")}</h3>
    <p class="hint">${t("scale.queues.applications.hint", { share: Math.round(answer.asked.share * 100) })}</p>
    <${Goodput} answer=${answer} />
    <${Applications} rows=${answer.applications} />
    <p class="hint">${t("scale.queues.source", { source: answer.source })}</p>`;
}

/** @param {{degrees: Degree[]}} props */
function Degrees({ degrees }) {
  const columns = ["speedup", "intra_latency", "intra_throughput", "inter_latency", "inter_throughput"];
  const cell = (/** @type {number | Derived} */ held) =>
    typeof held === "number"
      ? html`<td>${t("scale.with_unit", { value: number4(held), unit: t("scale.unit.s") })}</td>`
      : html`<td title=${held.formula}>${valueText(held)}</td>`;
  const rows = degrees.map((one) => ({
    key: one.gpus,
    cells: [one.gpus, ...columns.map((id) => cell(one[/** @type {keyof Degree} */ (id)]))],
  }));
  return html`<${Table} id="scale-degrees" label=${t("scale.queues.degrees")}
    heads=${["gpus", ...columns].map((id) => t(`scale.queues.${id}`))} rows=${rows} />`;
}

/** @param {{rows: Row[]}} props */
function Applications({ rows }) {
  const cells = rows.map(({ application, served }) => ({
    key: application.id,
    cells: [
      t(`scale.queues.${application.id}`),
      application.ttft,
      application.tpot,
      ...served.map((one) => {
        const title = t("scale.queues.served", { prefill: number4(one.prefill), decode: number4(one.decode) });
        const rate = one.per_gpu ? number4(one.per_gpu) : t("scale.queues.never");
        return html`<td key=${one.arrangement} title=${title}>${rate}</td>`;
      }),
    ],
  }));
  const [first, ...arrangements] = ["application", "one", "inter", "intra"].map((id) => t(`scale.queues.${id}`));
  return html`<${Table} id="scale-applications" label=${t("scale.queues.applications")}
    heads=${[first, "TTFT, s", "TPOT, s", ...arrangements]} rows=${cells} />`;
}

/** @param {number} value */
const number4 = (value) => grouped(Number(value.toPrecision(4)));
