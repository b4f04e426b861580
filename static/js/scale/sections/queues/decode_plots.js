// Plots of decode over the number of GPUs, and of the goodput of each arrangement for an application.

import { useCallback } from "../../../../vendor/preact/hooks.js";
import { t } from "../../../i18n/words.js";
import { colours } from "../../../kit/colour.js";
import { html } from "../../../kit/html.js";
import { axis } from "../../../kit/plotly.js";
import { Plot } from "../../plot.js";

/** @import {Answer, Arrangement, Degree} from "./section.js" */

/** @typedef {"latency" | "throughput"} What */

const SPLIT = /** @type {Arrangement[]} */ (["inter", "intra"]); // with more than one GPU
const ALL = /** @type {Arrangement[]} */ (["one", "inter", "intra"]);
const DASHES = { one: "solid", inter: "dash", intra: "dot" };
const SEQUENCES = { one: 5, inter: 4, intra: 2 }; // indices in the palette, as in section.js

/** @param {Degree} degree @param {Arrangement} arrangement @param {What} what */
function of(degree, arrangement, what) {
  const held = degree[/** @type {keyof Degree} */ (`${arrangement}_${what}`)];
  return typeof held === "number" ? held : held.value;
}

/**
 * Plot of seconds per step, or tokens per second, over the number of GPUs.
 * @param {{answer: Answer, what: What}} props
 */
export function OverDegrees({ answer, what }) {
  const drawn = useCallback(() => overDegrees(answer, what), [answer, what]);
  const rows = () => [
    [t("scale.queues.gpus"), ...SPLIT.map((id) => t(`scale.queues.${id}_${what}`))],
    ...answer.decode.map((degree) => [degree.gpus, ...SPLIT.map((id) => of(degree, id, what))]),
  ];
  return html`<${Plot} id=${`queues-${what}`} title=${t(`scale.queues.chart.${what}`)} figure=${drawn} rows=${rows} />`;
}

/** @param {Answer} answer @param {What} what */
function overDegrees({ decode }, what) {
  const palette = colours();
  const gpus = decode.map((degree) => degree.gpus);
  const data = SPLIT.map((arrangement) => ({
    type: "scatter",
    mode: "lines+markers",
    name: t(`scale.queues.${arrangement}`),
    x: gpus,
    y: decode.map((degree) => of(degree, arrangement, what)),
    line: { color: palette.sequences[SEQUENCES[arrangement]], dash: DASHES[arrangement], width: 2 },
    marker: { size: 6 },
  }));
  const layout = {
    xaxis: axis(t("scale.queues.gpus"), { type: "log", tickvals: gpus, ticktext: gpus.map(String) }),
    yaxis: axis(t(`scale.queues.axis.${what}`), { rangemode: "tozero" }),
  };
  return { data, layout };
}

/** Plot of requests per second and GPU within an application's objectives. @param {{answer: Answer}} props */
export function Goodput({ answer }) {
  const drawn = useCallback(() => goodput(answer), [answer]);
  const rows = () => [
    [t("scale.queues.application"), ...ALL.map((id) => t(`scale.queues.${id}`))],
    ...answer.applications.map(({ application, served }) => [
      t(`scale.queues.${application.id}`),
      ...served.map((one) => one.per_gpu),
    ]),
  ];
  return html`<${Plot} id="queues-goodput" title=${t("scale.queues.chart.goodput")} figure=${drawn} rows=${rows} />`;
}

/** @param {Answer} answer */
function goodput({ applications }) {
  const palette = colours();
  const names = applications.map(({ application }) => t(`scale.queues.${application.id}`));
  const data = ALL.map((arrangement, at) => ({
    type: "bar",
    orientation: "h",
    name: t(`scale.queues.${arrangement}`),
    y: names,
    x: applications.map(({ served }) => served[at].per_gpu),
    marker: { color: palette.sequences[SEQUENCES[arrangement]] },
  }));
  const layout = {
    barmode: "group",
    xaxis: axis(t("scale.queues.axis.goodput"), { rangemode: "tozero" }),
    yaxis: { ...axis(""), automargin: true, autorange: "reversed" },
    margin: { l: 120, r: 10, t: 60, b: 44 },
  };
  return { data, layout };
}
