// Plots of the section "Compute or bandwidth". All axes are logarithmic, except the rate of measured prefill steps.

import { useCallback } from "../../../../vendor/preact/hooks.js";
import { grouped, t } from "../../../i18n/words.js";
import { colours } from "../../../kit/colour.js";
import { html } from "../../../kit/html.js";
import { axis } from "../../../kit/plotly.js";
import { lineAt, Plot } from "../../plot.js";

/** @import {Answer, Phase, StepPoint} from "./section.js" */

/** @typedef {{answer: Answer}} Props */

const PHASES = /** @type {Phase[]} */ (["decode", "prefill"]);
const COLOURS = { decode: 4, prefill: 2 }; // indices in the palette of sequences
const SYMBOLS = { decode: "circle", prefill: "square" };

/**
 * Return a plot of this section.
 * @param {string} id
 * @param {Answer} answer
 * @param {(answer: Answer) => {data: object[], layout: object}} figure
 * @param {(answer: Answer) => (string | number)[][]} rows
 */
function plot(id, answer, figure, rows) {
  const drawn = useCallback(() => figure(answer), [answer]);
  const title = t(`scale.roofline.chart.${id}`);
  return html`<${Plot} id=${`roofline-${id}`} title=${title} figure=${drawn} rows=${() => rows(answer)} />`;
}

/** @param {string} id @param {Record<string, unknown>} [more] */
const log = (id, more = {}) => axis(t(`scale.roofline.axis.${id}`), { type: "log", exponentformat: "SI", ...more });

/** @param {...string} ids ids of a table's column titles */
const heads = (...ids) => ids.map((id) => t(`scale.roofline.${id}`));

/** @param {Phase} phase */
const phaseText = (phase) => t(`scale.roofline.measured.${phase}`);

/** Return the last columns of a family's row. @param {StepPoint} point */
const fields = (point) => [
  point.intensity,
  point.flops_per_second,
  t(`scale.roofline.limit.${point.bound}`),
  point.seconds ?? "",
];

/** Plot of both roofs, measured steps below them, and the chosen step. @param {Props} props */
export function Roofs({ answer }) {
  return plot("roofs", answer, roofs, (one) => [
    heads("step", "axis.batch", "axis.tokens", "axis.intensity", "axis.rate"),
    ...one.dots.map((dot) => [phaseText(dot.phase), dot.batch, dot.tokens, dot.intensity, dot.flops_per_second]),
    ...PHASES.map((phase) => {
      const { step } = one.chosen[phase];
      return [t(`scale.roofline.chosen.${phase}`), step.batch, step.tokens, step.intensity, step.flops_per_second];
    }),
  ]);
}

/** @param {Answer} answer */
function roofs({ roof, ridge, dots, chosen }) {
  const palette = colours();
  const all = [...dots.map(({ intensity }) => intensity), ...PHASES.map((phase) => chosen[phase].step.intensity)];
  const ends = [Math.min(ridge.value, ...all) / 2, Math.max(ridge.value, ...all) * 4];
  const data = [
    {
      type: "scatter",
      mode: "lines",
      name: t("scale.roofline.roofs"),
      x: [ends[0], ridge.value, ends[1]],
      y: [ends[0] * roof.bytes_per_second, roof.flops_per_second, roof.flops_per_second],
      line: { color: palette["ink-2"], width: 2 },
    },
    ...PHASES.filter((phase) => dots.some((dot) => dot.phase === phase)).map((phase) => {
      const own = dots.filter((dot) => dot.phase === phase);
      return {
        type: "scatter",
        mode: "markers",
        name: t(`scale.roofline.measured.${phase}`),
        x: own.map(({ intensity }) => intensity),
        y: own.map(({ flops_per_second: rate }) => rate),
        marker: { color: palette.sequences[COLOURS[phase]], symbol: SYMBOLS[phase], size: 6, opacity: 0.8 },
      };
    }),
    ...PHASES.map((phase) => ({
      type: "scatter",
      mode: "markers",
      name: t(`scale.roofline.chosen.${phase}`),
      x: [chosen[phase].step.intensity],
      y: [chosen[phase].step.flops_per_second],
      marker: {
        color: palette.surface,
        symbol: SYMBOLS[phase],
        size: 12,
        line: { color: palette.sequences[COLOURS[phase]], width: 3 },
      },
    })),
  ];
  return { data, layout: { xaxis: log("intensity"), yaxis: log("rate"), shapes: [lineAt("x", ridge.value, "dot")] } };
}

/**
 * Return a plot of a family of curves: the rates that the roofs allow, one curve per entry of `lines`.
 * @param {Phase} id
 * @param {Answer} answer
 * @param {"batch" | "tokens"} over
 * @param {string} first title of the table's first column, which shows `of` of each line
 * @param {(answer: Answer) => {name: string, of: number, points: StepPoint[]}[]} lines
 */
function family(id, answer, over, first, lines) {
  /** @param {Answer} one */
  const drawn = (one) => {
    const palette = colours();
    const data = lines(one).map(({ name, points }, at) => ({
      type: "scatter",
      mode: "lines+markers",
      name,
      x: points.map((point) => point[over]),
      y: points.map((point) => point.flops_per_second),
      line: { color: palette.sequences[(2 * at + 1) % 8], width: 2, dash: ["solid", "dash", "dot"][at % 3] },
      marker: { size: 5 },
    }));
    const shapes = [lineAt("y", one.roof.flops_per_second, "dot")];
    return { data, layout: { xaxis: log(over), yaxis: log("allowed"), shapes } };
  };
  return plot(id, answer, drawn, (one) => [
    heads(first, `axis.${over}`, "axis.intensity", "axis.allowed", "limit", "axis.predicted"),
    ...lines(one).flatMap(({ of, points }) => points.map((point) => [of, point[over], ...fields(point)])),
  ]);
}

/** @param {Answer} answer */
const contexts = ({ decode }) =>
  decode.map(({ context, points }) => {
    const name = t("scale.roofline.at_context", { context: grouped(context) });
    return { name, of: context, points };
  });

/** @param {Answer} answer */
const batches = ({ prefill }) =>
  prefill.map(({ batch, points }) => ({ name: t("scale.roofline.at_batch", { batch }), of: batch, points }));

/** @param {Props} props */
export const Decode = ({ answer }) => family("decode", answer, "batch", "keys", contexts);

/** @param {Props} props */
export const Prefill = ({ answer }) => family("prefill", answer, "tokens", "axis.batch", batches);

/** Plot of measured over predicted steps, with the line of equality. @param {Props} props */
export function Measured({ answer }) {
  return plot("measured", answer, measured, ({ errors }) => [
    heads("step", "variant", "axis.tokens", "axis.predicted", "axis.took", "low", "high"),
    ...PHASES.flatMap((phase) =>
      (errors[phase]?.points ?? []).map((p) => [
        phaseText(phase),
        p.variant,
        p.tokens,
        p.predicted,
        p.measured,
        p.low,
        p.high,
      ]),
    ),
  ]);
}

/** @param {Answer} answer */
function measured({ errors }) {
  const palette = colours();
  const all = PHASES.flatMap((phase) => errors[phase]?.points ?? []);
  const ends = [Math.min(...all.map(({ predicted }) => predicted)), Math.max(...all.map((one) => one.measured))];
  const equal = {
    type: "scatter",
    mode: "lines",
    name: t("scale.roofline.equal"),
    x: ends,
    y: ends,
    line: { color: palette["ink-3"], width: 1, dash: "dot" },
  };
  const data = PHASES.filter((phase) => errors[phase]).map((phase) => {
    const points = errors[phase]?.points ?? [];
    return {
      type: "scatter",
      mode: "markers",
      name: t(`scale.roofline.measured.${phase}`),
      x: points.map(({ predicted }) => predicted),
      y: points.map((one) => one.measured),
      error_y: {
        type: "data",
        symmetric: false,
        array: points.map((one) => one.high - one.measured),
        arrayminus: points.map((one) => one.measured - one.low),
        width: 2,
        thickness: 1,
      },
      marker: { color: palette.sequences[COLOURS[phase]], symbol: SYMBOLS[phase], size: 6 },
    };
  });
  return { data: [equal, ...data], layout: { xaxis: log("predicted"), yaxis: log("took") } };
}

/** Plots of measured prefill rates on two axes, with the fit. @param {Props} props */
export function Saturated({ answer }) {
  return plot("saturated", answer, saturated, ({ saturation }) => [
    heads("axis.batch", "axis.tokens", "axis.prefill_rate", "low", "high", "fitted"),
    ...(saturation?.points ?? []).map((p) => [p.batch, p.tokens, p.rate, p.low, p.high, p.fitted]),
  ]);
}

/** @param {Answer} answer */
function saturated({ saturation }) {
  const palette = colours();
  const points = saturation?.points ?? [];
  const data = [...new Set(points.map(({ batch }) => batch))].flatMap((batch, at) => {
    const own = points.filter((point) => point.batch === batch).sort((a, b) => a.tokens - b.tokens);
    const color = palette.sequences[(at + 1) % 8];
    const x = own.map(({ tokens }) => tokens);
    const name = t("scale.roofline.at_batch", { batch });
    return [
      {
        type: "scatter",
        mode: "markers",
        name,
        legendgroup: String(batch),
        x,
        y: own.map(({ rate }) => rate),
        marker: { color, size: 6 },
      },
      {
        type: "scatter",
        mode: "lines",
        name,
        legendgroup: String(batch),
        showlegend: false,
        x,
        y: own.map(({ fitted }) => fitted),
        line: { color, width: 1 },
      },
    ];
  });
  return {
    data,
    layout: { xaxis: log("tokens"), yaxis: axis(t("scale.roofline.axis.prefill_rate"), { rangemode: "tozero" }) },
  };
}
