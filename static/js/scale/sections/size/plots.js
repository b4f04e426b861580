// Plots of the section "What it costs": memory terms beside the memory of each GPU, and requests per GPU over length.

import { useCallback } from "../../../../vendor/preact/hooks.js";
import { t } from "../../../i18n/words.js";
import { colours } from "../../../kit/colour.js";
import { html } from "../../../kit/html.js";
import { axis } from "../../../kit/plotly.js";
import { Plot } from "../../plot.js";

/** @import {Answer} from "./section.js" */

const GIB = 2 ** 30;
const TERMS = ["weights", "kv_batch", "activations", "reserve"];
const HELD = ["reserved", "paged", "shared"];
const COLOURS = [2, 4, 6, 0]; // indices in the palette of sequences
const DASHES = ["dot", "solid", "dash"];

/** Return the bytes of each term. @param {Answer} answer @returns {[string, number][]} */
function terms({ sizes, load }) {
  const found = new Map(sizes.map(({ id, value }) => [id, value]));
  found.set("reserve", load.reserve_bytes);
  return TERMS.filter((id) => found.has(id)).map((id) => [id, found.get(id) ?? 0]);
}

/** Plot of the terms as one stacked bar, above the memory of each GPU. @param {{answer: Answer}} props */
export function Terms({ answer }) {
  const figure = useCallback(() => termsFigure(answer), [answer]);
  const rows = () => [
    [t("scale.size.chart.what"), t("scale.size.chart.bytes")],
    ...terms(answer).map(([id, bytes]) => [t(`scale.size.term.${id}`), bytes]),
    ...answer.gpus.map((gpu) => [gpu.name, Math.floor(gpu.room_bytes * answer.load.utilization)]),
  ];
  return html`<${Plot} id="size-terms" title=${t("scale.size.chart.terms")} figure=${figure} rows=${rows} />`;
}

/** @param {Answer} answer */
function termsFigure(answer) {
  const palette = colours();
  const needed = t("scale.size.chart.needed");
  const bar = { type: "bar", orientation: "h" };
  const own = terms(answer).map(([id, bytes], at) => ({
    ...bar,
    name: t(`scale.size.term.${id}`),
    y: [needed],
    x: [bytes / GIB],
    marker: { color: palette.sequences[COLOURS[at]] },
  }));
  const cards = {
    ...bar,
    name: t("scale.size.chart.given"),
    y: answer.gpus.map(({ name }) => name),
    x: answer.gpus.map(({ room_bytes }) => (room_bytes * answer.load.utilization) / GIB),
    marker: { color: palette["ink-3"] },
    opacity: 0.5,
  };
  const layout = {
    barmode: "stack",
    xaxis: axis("GiB"),
    yaxis: { ...axis(""), automargin: true, autorange: "reversed" },
    margin: { l: 110, r: 10, t: 60, b: 44 },
  };
  return { data: [...own, cards], layout };
}

/** Plot of the requests that fit on a GPU, over their number of tokens. @param {{answer: Answer, gpu: string}} props */
export function Requests({ answer, gpu }) {
  const figure = useCallback(() => requestsFigure(answer), [answer]);
  const shown = HELD.filter((id) => answer.curve.some((point) => point[id] !== undefined));
  if (!shown.length) return null;
  const rows = () => [
    [t("scale.size.context"), ...shown.map((id) => t(`scale.size.${id}`))],
    ...answer.curve.map((point) => [point.context, ...shown.map((id) => point[id] ?? "")]),
  ];
  const title = t("scale.size.chart.requests", { gpu });
  return html`<${Plot} id="size-requests" title=${title} figure=${figure} rows=${rows} />`;
}

/** @param {Answer} answer */
function requestsFigure({ curve }) {
  const palette = colours();
  const data = HELD.map((id, at) => {
    const points = curve.filter((point) => point[id] !== undefined);
    return {
      type: "scatter",
      mode: "lines+markers",
      name: t(`scale.size.${id}`),
      x: points.map(({ context }) => context),
      y: points.map((point) => point[id]),
      line: { color: palette.sequences[COLOURS[at]], width: 2, dash: DASHES[at] },
      marker: { size: 5 },
    };
  }).filter(({ x }) => x.length);
  const log = { type: "log", exponentformat: "SI" };
  const ticks = curve.map(({ context }) => context);
  const layout = {
    xaxis: axis(t("scale.size.context"), { ...log, tickvals: ticks, ticktext: ticks.map(String) }),
    yaxis: axis(t("scale.size.chart.held"), log),
  };
  return { data, layout };
}
