// A chart to keep: as a picture, or its rows as CSV.

import { csvOf } from "../../core/series.js";
import { colours } from "../../kit/colour.js";
import { html } from "../../kit/html.js";
import { baseLayout, loadPlotly } from "../../kit/plotly.js";
import { saveText } from "../../kit/save.js";
import { isEmbedded } from "../../state/embedded.js";
import { t } from "../../tell/words.js";
import { CHARTS } from "./charts.js";

/**
 * @typedef {import("./charts.js").At} At
 * @typedef {import("./charts.js").ChartName} ChartName
 */

const IMAGE = { width: 1200, height: 675 };

/** @param {{name: ChartName, at: At, rows: Parameters<typeof csvOf>[0]}} props */
export function Downloads({ name, at, rows }) {
  const file = `${CHARTS[name].csv}-${(at.log?.header.created ?? "").slice(0, 10)}`;
  /** @param {"png" | "svg"} format */
  const picture = async (format) => {
    const plotly = await loadPlotly();
    const { data, layout } = CHARTS[name].figure(at, rows);
    const palette = colours();
    const title = { text: t(`time.${name}`), x: 0.02, font: { size: 18, color: palette.ink } };
    const look = {
      ...baseLayout(IMAGE.width, IMAGE.height),
      margin: { l: 76, r: 24, t: 56, b: 60 },
      paper_bgcolor: palette.paper,
      plot_bgcolor: palette.paper,
      showlegend: true,
      title,
      legend: { orientation: "h", x: 1, xanchor: "right", y: 1.02, yanchor: "bottom" },
    };
    await plotly.downloadImage(
      { data, layout: { ...look, ...layout, shapes: [], font: { ...look.font, size: 15 } } },
      { format, filename: file, ...IMAGE, scale: format === "png" ? 2 : 1 },
    );
  };
  /** @type {(format: string, action: () => void) => import("../../kit/html.js").Children} */
  const button = (format, action) =>
    html`<button class="link" disabled=${!rows.length} aria-label=${t("time.download_as", { format })}
      title=${t("time.download_as", { format })} onClick=${action}>${format}</button>`;
  return html`<div
    class="chart-downloads">${
      isEmbedded ? null : [button("PNG", () => picture("png")), button("SVG", () => picture("svg"))]
    }${button("CSV", () => saveText(csvOf(rows), `${file}.csv`))}</div>`;
}
