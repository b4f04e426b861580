// The time panel: a chart, the values of the shown record, and downloads of the chart and its rows.

import { useEffect } from "../../../vendor/preact/hooks.js";
import { csvOf } from "../../core/series.js";
import { t } from "../../i18n/words.js";
import { colours } from "../../kit/colour.js";
import { html } from "../../kit/html.js";
import { baseLayout, loadPlotly } from "../../kit/plotly.js";
import { saveText } from "../../kit/save.js";
import { followRoofs, roofs } from "../../net/rooflines.js";
import { settings } from "../../state/settings.js";
import { log, numRecords, viewIndex } from "../../state/store.js";
import { isEmbedded, isSite } from "../../state/without_server.js";
import { CHARTS } from "./charts.js";
import { EngineFlow } from "./flow.js";
import { Latencies } from "./latencies.js";
import { Plot } from "./plot.js";
import { Values } from "./values.js";

/** @import {Children} from "../../kit/html.js" */
/** @import {ChartInputs, ChartName} from "./charts.js" */

const IMAGE = { width: 1200, height: 675 };

/** @param {{name: ChartName, at: ChartInputs, rows: Parameters<typeof csvOf>[0]}} props */
function Downloads({ name, at, rows }) {
  const file = `${CHARTS[name].csv}-${(at.log?.header.created ?? "").slice(0, 10)}`;
  /** @param {"png" | "svg"} format */
  const downloadImage = async (format) => {
    const plotly = await loadPlotly();
    const { data, layout } = CHARTS[name].figure(at, rows);
    const palette = colours();
    const title = { text: t(`time.${name}`), x: 0.02, font: { size: 18, color: palette.ink } };
    const layoutBase = {
      ...baseLayout(IMAGE.width, IMAGE.height),
      margin: { l: 76, r: 24, t: 56, b: 60 },
      paper_bgcolor: palette.paper,
      plot_bgcolor: palette.paper,
      showlegend: true,
      title,
      legend: { orientation: "h", x: 1, xanchor: "right", y: 1.02, yanchor: "bottom" },
    };
    await plotly.downloadImage(
      { data, layout: { ...layoutBase, ...layout, shapes: [], font: { ...layoutBase.font, size: 15 } } },
      { format, filename: file, ...IMAGE, scale: format === "png" ? 2 : 1 },
    );
  };
  /** @type {(format: string, action: () => void) => Children} */
  const button = (format, action) =>
    html`<button class="link" disabled=${!rows.length} aria-label=${t("time.download_as", { format })}
      title=${t("time.download_as", { format })} onClick=${action}>${format}</button>`;
  return html`<div
    class="chart-downloads">${
      isEmbedded ? null : [button("PNG", () => downloadImage("png")), button("SVG", () => downloadImage("svg"))]
    }${button("CSV", () => saveText(csvOf(rows), `${file}.csv`))}</div>`;
}

/** Return the inputs of all charts: the loaded log, the shown record, and the roofs if known. @returns {ChartInputs} */
function chartInputs() {
  numRecords.value; // dependency: the log grows in place
  const index = viewIndex.value;
  return {
    log: log.value,
    index,
    record: log.value?.records[index] ?? null,
    roofs: typeof roofs.value === "object" ? roofs.value : null,
  };
}

const FLOW = "flow"; // not a chart: the engine's components
const NAMES = /** @type {(keyof typeof CHARTS | typeof FLOW)[]} */ ([...Object.keys(CHARTS), FLOW]);

export function Panel() {
  const name = settings.chart.value;
  if (name !== FLOW) return html`<${ChartPanel} name=${name} />`;
  return html`<div class="time" data-chart=${name}><${Rail} name=${name} /><${EngineFlow} /></div>`;
}

/** @param {{name: string, children?: Children}} props */
function Rail({ name, children }) {
  return html`<div class="chart-rail" role="group" aria-label=${t("time.choose")}>
    ${NAMES.map(
      (key) =>
        html`<button class="chart-choice" id=${`chart-${key}`} aria-pressed=${key === name}
          onClick=${() => (settings.chart.value = key)}>${t(`time.${key}`)}</button>`,
    )}
    ${isEmbedded || isSite ? null : html`<a class="chart-choice" href="bench">${t("header.bench")}</a>`}
    ${children}
  </div>`;
}

/** @param {{name: ChartName}} props */
function ChartPanel({ name }) {
  const chart = CHARTS[name];
  const at = chartInputs();
  const rows = at.log ? chart.rows({ ...at, log: at.log }) : [];
  useEffect(() => (name === "roofline" ? followRoofs() : undefined), [name]);
  return html`<div class="time" data-chart=${name}>
    <${Rail} name=${name}><${Downloads} name=${name} at=${at} rows=${rows} /><//>
    <${Plot} key=${name} name=${name} at=${at} rows=${rows} />
    <aside class="chart-aside">${
      name === "sequences"
        ? html`<${Latencies} rows=${rows} />`
        : html`<${Values}
      name=${name} at=${at} rows=${rows} />`
    }</aside>
  </div>`;
}
