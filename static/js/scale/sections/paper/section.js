// Section "Paper": figures 1, 3, 4 and 5 of DistServe reproduced from public inputs, beside the published values.

import { useCallback } from "../../../../vendor/preact/hooks.js";
import { grouped, t } from "../../../i18n/words.js";
import { colours } from "../../../kit/colour.js";
import { html } from "../../../kit/html.js";
import { axis } from "../../../kit/plotly.js";
import { inputs, name } from "../../inputs.js";
import { lineAt, Plot } from "../../plot.js";
import { Table } from "../../table.js";
import { useResult } from "../../use_result.js";

/** @type {import("../../../state/settings.js").SettingTable} */
export const TABLE = { paper: { type: name, initial: "", place: true } };

const values = inputs(TABLE);
const SHOWN = "distserve"; // value of the setting `paper` in a link
const HIGHEST = 4; // upper end of the y axis, as a multiple of a curve's first value
const DASHES = ["solid", "dash", "dot", "dashdot"];
const SEQUENCES = [5, 2, 4, 1];
const STEPS = new Set(["prefill_rate", "decode_rate", "step", "throughput"]); // panels whose x values double

/**
 * @typedef {{kind: string, value: number | null, points: [number, number][]}} Line
 * @typedef {{id: string, lines: Line[], bound: number | null}} Panel
 * @typedef {{id: string, printed: number | null, here: number}} Compared
 * @typedef {{number: number, panels: Panel[], compared: Compared[]}} PaperFigure
 * @typedef {{figures: PaperFigure[], source: string, times: string[]}} Answer
 */

export function Section() {
  return values.paper.value === SHOWN
    ? html`<${Figures} />`
    : html`<p>
        <button class="tool" id="scale-paper-show" onClick=${() => (values.paper.value = SHOWN)}>
          ${t("scale.paper.show")}
        </button>
      </p>`;
}

function Figures() {
  /** @type {{value: Answer | null, problem: string | null}} */
  const { value, problem } = useResult("paper", {});
  if (problem) return html`<p class="scale-problem" role="alert">${problem}</p>`;
  if (!value) return html`<p class="hint" role="status">${t("scale.paper.computing")}</p>`;
  return html`<p>${t("scale.paper.differs")}</p>
    ${value.figures.map((figure) => html`<${Figure} key=${figure.number} figure=${figure} />`)}
    <p class="hint">${t("scale.paper.source", { source: value.source, times: value.times.join("; ") })}</p>`;
}

/** @param {{figure: PaperFigure}} props */
function Figure({ figure: { number, panels, compared } }) {
  const title = t(`scale.paper.figure_${number}`);
  return html`<h3 id=${`scale-paper-${number}`}>${title}</h3>
    <p>${t(`scale.paper.figure_${number}.says`)}</p>
    ${panels.map((panel) => html`<${Curves} key=${panel.id} number=${number} panel=${panel} />`)}
    <${Table} label=${title} heads=${["", t("scale.paper.printed"), t("scale.paper.here")]}
      rows=${compared.map((one) => ({
        key: one.id,
        "data-compared": one.id,
        cells: [
          t(`scale.paper.${one.id}`),
          one.printed === null ? t("scale.paper.not_printed") : number3(one.printed),
          number3(one.here),
        ],
      }))} />`;
}

/** @param {{number: number, panel: Panel}} props */
function Curves({ number, panel }) {
  const drawn = useCallback(() => plotted(panel), [panel]);
  const title = t("scale.paper.panel", { number, panel: t(`scale.paper.${panel.id}`) });
  return html`<${Plot} id=${`paper-${panel.id}`} title=${title} figure=${drawn} rows=${() => rows(panel)} />`;
}

/** @param {Panel} panel */
function plotted({ id, lines, bound }) {
  const palette = colours();
  const doubles = STEPS.has(id);
  const ticks = lines[0].points.map(([x]) => x);
  const highest = Math.max(...lines.map(({ points }) => HIGHEST * points[0][1]), 1.25 * (bound ?? 0));
  const data = lines.map((line, index) => ({
    type: "scatter",
    mode: line.points.length > 12 ? "lines" : "lines+markers",
    name: nameOf(line),
    x: line.points.map(([x]) => x),
    y: line.points.map(([, y]) => y),
    line: { color: palette.sequences[SEQUENCES[index]], dash: DASHES[index], width: 2 },
  }));
  const layout = {
    xaxis: axis(
      t(`scale.paper.${id}.x`),
      doubles ? { type: "log", tickvals: ticks, ticktext: ticks.map(String) } : { rangemode: "tozero" },
    ),
    yaxis: axis(t(`scale.paper.${id}.y`), doubles ? { rangemode: "tozero" } : { range: [0, highest] }),
  };
  return { data, layout: bound === null ? layout : { ...layout, shapes: [lineAt("y", bound, "dot")] } };
}

/** @param {Line} line */
const nameOf = ({ kind, value }) =>
  value === null ? t(`scale.paper.line.${kind}`) : t(`scale.paper.line.${kind}.of`, { value: number3(value) });

/** @param {Panel} panel */
function rows({ id, lines }) {
  const found = lines.flatMap((line) => line.points.map(([x, y]) => [nameOf(line), x, y]));
  return [[t("scale.paper.line"), t(`scale.paper.${id}.x`), t(`scale.paper.${id}.y`)], ...found];
}

/** @param {number} value */
const number3 = (value) => grouped(value >= 1000 ? Math.round(value) : Number(value.toPrecision(3)));
