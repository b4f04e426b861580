// Mean time to first token over the rate, one curve for each arrangement, each with its name at its end.

import { useEffect, useRef, useState } from "../../../../vendor/preact/hooks.js";
import { colours, themeVersion } from "../../../kit/colour.js";
import { html } from "../../../kit/html.js";
import { axis, baseLayout, CONFIG, loadPlotly } from "../../../kit/plotly.js";
import { language } from "../../../tell/language.js";
import { t } from "../../../tell/words.js";

const HEIGHT = 320;
const HIGHEST = 4; // of a curve, in service times: beyond it a queue only grows
const DASHES = { one: "solid", inter: "dash", intra: "dot" };
const SEQUENCES = { one: 5, inter: 4, intra: 2 };

/**
 * @typedef {import("./section.js").Answer} Answer
 * @param {{answer: Answer}} props
 */
export function Curves({ answer }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const plot = useRef(/** @type {HTMLElement | null} */ (null));
  const [plotly, setPlotly] = useState(/** @type {import("../../../kit/plotly.js").Plotly | null} */ (null));
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const [element, drawn] = [box.current, plot.current];
    if (!element || !drawn) return undefined;
    loadPlotly().then(setPlotly, () => setPlotly(null));
    const sizes = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)));
    sizes.observe(element);
    return () => sizes.disconnect();
  }, []);
  useEffect(() => {
    if (!plotly || !width || !plot.current || !box.current) return;
    const { data, layout } = figure(answer, width, HEIGHT);
    plotly.react(plot.current, data, layout, CONFIG);
    box.current.dataset.drawn = String(answer.lines.length);
  }, [plotly, width, answer, themeVersion.value, language.value]);
  const save = (/** @type {"png" | "svg"} */ format) => async () => {
    const { data, layout } = figure(answer, 1200, 720);
    const paper = { ...layout, paper_bgcolor: colours().surface };
    const come = await loadPlotly();
    await come.downloadImage(
      { data, layout: paper },
      { format, filename: "kvtheater-queues", width: 1200, height: 720 },
    );
  };
  return html`<figure class="bench-figure">
    <figcaption>
      <span>${t("scale.queues.chart")}</span>
      <span>
        ${(/** @type {("png" | "svg")[]} */ (["png", "svg"])).map(
          (format) =>
            html`<button key=${format} class="link" onClick=${save(format)}>${format.toUpperCase()}</button> `,
        )}
        <a class="link" download="kvtheater-queues.csv"
          href=${`data:text/csv,${encodeURIComponent(csv(answer))}`}>CSV</a>
      </span>
    </figcaption>
    <div class="bench-chart chart" ref=${box} role="img" aria-label=${t("scale.queues.chart")} id="scale-queue-curves">
      <div class="chart-plot" ref=${plot}></div>
    </div>
  </figure>`;
}

/**
 * @param {Answer} answer
 * @param {number} width
 * @param {number} height
 */
function figure({ lines, asked, crossing }, width, height) {
  const palette = colours();
  const most = HIGHEST * asked.service;
  const data = lines.map(({ arrangement, curve }) => ({
    type: "scatter",
    mode: "lines",
    name: t(`scale.queues.${arrangement}`),
    x: curve.map(({ rate }) => rate),
    y: curve.map(({ seconds }) => seconds),
    line: { color: palette.sequences[SEQUENCES[arrangement]], dash: DASHES[arrangement], width: 2 },
  }));
  const line = (/** @type {number} */ x, /** @type {string} */ dash) => ({
    type: "line",
    x0: x,
    x1: x,
    yref: "paper",
    y0: 0,
    y1: 1,
    line: { color: palette["ink-3"], width: 1, dash },
  });
  const layout = {
    ...baseLayout(width, height),
    showlegend: true,
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 },
    margin: { l: 56, r: 10, t: 40, b: 44 },
    xaxis: axis(t("scale.queues.axis.rate"), { rangemode: "tozero" }),
    yaxis: axis(t("scale.queues.axis.ttft"), { range: [0, most] }),
    shapes: [line(asked.rate, "solid"), ...(crossing ? [line(crossing.rate, "dot")] : [])],
  };
  return { data, layout };
}

/** @param {Answer} answer */
function csv({ lines }) {
  const rows = lines.flatMap(({ arrangement, curve }) =>
    curve.map(({ load, rate, seconds }) => [arrangement, load, rate, seconds].join(",")),
  );
  return ["arrangement,load,requests_per_second,mean_ttft_seconds", ...rows].join("\n");
}
