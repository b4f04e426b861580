// Chart of latencies of each sequence: queue and first token, and inter-token gaps.

import { drawnGaps } from "../../core/series.js";
import { t } from "../../i18n/words.js";
import { alpha, colours } from "../../kit/colour.js";
import { axis } from "../../kit/plotly.js";
import { MS } from "./rows.js";

/** @import {ChartInputs} from "./charts.js" */

/** @typedef {ReturnType<typeof import("../../core/series.js").sequenceRows>[number]} Row */

/** Approximate maximum number of drawn gaps. Each is a DOM element; a thousand requests have about 70,000 gaps. */
export const MAX_GAPS = 4000;

/** @param {ChartInputs} _ @param {Row[]} rows */
export function sequenceFigure(_, rows) {
  const palette = colours();
  const names = rows.map((row) => String(row.seq));
  /** @param {(number | null)[]} values */
  const milliseconds = (values) => values.map((seconds) => (seconds === null ? null : seconds * MS));
  const { gaps } = drawnGaps(rows, MAX_GAPS);
  const shared = { hoverinfo: "none", customdata: rows.map((row) => [row.seq]) };
  const data = [
    {
      ...shared,
      type: "bar",
      name: t("time.queue"),
      x: names,
      y: milliseconds(rows.map((row) => row.queue)),
      marker: {
        color: palette.waste,
        pattern: {
          shape: "/",
          fillmode: "replace",
          fgcolor: palette.waste,
          bgcolor: palette["line-2"],
          size: 5,
          solidity: 0.35,
        },
      },
    },
    {
      ...shared,
      type: "bar",
      name: t("time.ttft"),
      x: names,
      y: milliseconds(rows.map((row) => (row.ttft === null ? null : row.ttft - (row.queue ?? 0)))),
      marker: { color: palette.prompt },
    },
    {
      type: "scatter",
      mode: "markers",
      name: t("time.itl"),
      x: gaps.map((gap) => String(gap.seq)),
      y: gaps.map((gap) => gap.seconds * MS),
      customdata: gaps.map((gap) => [gap.seq, gap.token, gap.seconds]),
      hoverinfo: "none",
      xaxis: "x2",
      yaxis: "y2",
      marker: { color: alpha(palette.generated, 0.45), size: 5 },
    },
    {
      ...shared,
      type: "scatter",
      mode: "markers",
      name: t("time.tpot"),
      x: names,
      y: milliseconds(rows.map((row) => row.tpot)),
      xaxis: "x2",
      yaxis: "y2",
      marker: { symbol: "line-ew", size: 12, line: { width: 2.5, color: palette.ink } },
    },
  ];
  /** @param {object} settings */
  const sequences = (settings) =>
    axis(t("time.seq"), { type: "category", categoryorder: "array", categoryarray: names, tickangle: 0, ...settings });
  const layout = {
    hovermode: "closest",
    xaxis: sequences({ domain: [0, 0.42] }),
    yaxis: axis(t("time.ttft_axis"), { rangemode: "tozero", fixedrange: true }),
    xaxis2: sequences({ domain: [0.58, 1], anchor: "y2" }),
    yaxis2: axis(t("time.itl_axis"), { rangemode: "tozero", fixedrange: true, anchor: "x2" }),
  };
  return { data, layout };
}
