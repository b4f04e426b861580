// The roofline: arithmetic intensity and achieved rate of each step under the machine's measured roofs.

import { attainable, ridge } from "../../core/metrics.js";
import { rooflineRows } from "../../core/series.js";
import { bytesText, grouped, t } from "../../i18n/words.js";
import { alpha, colours } from "../../kit/colour.js";
import { axis } from "../../kit/plotly.js";
import { PHASES, rateText, rowAt } from "./rows.js";

/** @import {ChartInputs, Value} from "./charts.js" */

/** @typedef {ReturnType<typeof rooflineRows>[number]} Row */

const SYMBOLS = { prefill: "square", decode: "circle", mixed: "diamond" };

/** @param {ChartInputs} at @param {Row[]} rows */
export function rooflineFigure({ index, roofs }, rows) {
  const palette = colours();
  /** @type {object[]} */
  const data = PHASES.map((phase) => {
    const phaseRows = rows.filter((row) => row.phase === phase);
    return {
      type: "scatter",
      mode: "markers",
      name: t(`time.${phase}`),
      x: phaseRows.map((row) => row.intensity),
      y: phaseRows.map((row) => row.achieved),
      customdata: phaseRows.map((row) => row.record),
      hoverinfo: "none",
      marker: {
        symbol: SYMBOLS[phase],
        size: phaseRows.map((row) => (row.record === index ? 11 : 7)),
        color: alpha(phase === "decode" ? palette.generated : palette.prompt, phase === "mixed" ? 0.9 : 0.6),
        line: {
          color: phaseRows.map((row) =>
            row.record === index ? palette.ink : phase === "mixed" ? palette.generated : palette.paper,
          ),
          width: phaseRows.map((row) => (row.record === index ? 2 : 1)),
        },
      },
    };
  }).filter((trace) => trace.x.length > 0);
  const xs = rows.map((row) => row.intensity);
  const ys = rows.map((row) => row.achieved);
  const [left, right] = [
    Math.min(...xs, roofs ? ridge(roofs) : Infinity) / 2.5,
    Math.max(...xs, roofs ? ridge(roofs) : 0) * 4,
  ];
  const top = Math.max(...ys, roofs?.flops_per_second ?? 0) * 3;
  const bottom = Math.min(...ys, roofs ? attainable(roofs, left) : Infinity) / 2;
  /** @type {object[]} */
  const annotations = [];
  if (roofs) {
    const ridgePoint = ridge(roofs);
    data.unshift({
      type: "scatter",
      mode: "lines",
      name: t("time.roofline"),
      x: [left, ridgePoint, right],
      y: [left, ridgePoint, right].map((x) => attainable(roofs, x)),
      hoverinfo: "skip",
      line: { color: palette.ink, width: 1.5 },
    });
    const label = { showarrow: false, font: { size: 12, color: palette.ink } };
    annotations.push(
      {
        ...label,
        x: Math.log10(right),
        y: Math.log10(roofs.flops_per_second),
        xanchor: "right",
        yanchor: "bottom",
        text: t("time.roof.peak", { value: rateText(roofs.flops_per_second) }),
      },
      {
        ...label,
        x: Math.log10(left * 2),
        y: Math.log10(attainable(roofs, left * 2)),
        xanchor: "left",
        yanchor: "top",
        xshift: 4,
        yshift: -4,
        text: t("time.roof.bandwidth", { value: rateText(roofs.bytes_per_second) }),
      },
    );
  }
  /** @type {(title: string, from: number, to: number) => object} */
  const log = (title, from, to) =>
    axis(title, {
      type: "log",
      range: [Math.log10(from), Math.log10(to)],
      tickformat: "~s",
      dtick: 1,
      fixedrange: true,
    });
  return {
    data,
    layout: {
      margin: { l: 60, r: 10, t: 8, b: 34 }, // rates are one letter wider than other charts' labels
      hovermode: "closest",
      dragmode: false,
      xaxis: log(t("time.intensity"), left, right),
      yaxis: log(t("time.flops_axis"), bottom, top),
      annotations,
    },
  };
}

/** @param {ChartInputs} at @param {Row[]} rows @returns {Value[]} */
export function rooflineValues({ index, roofs }, rows) {
  const row = rowAt(rows, index);
  if (!row) return [];
  /** @type {Value[]} */
  const values = [
    ["", t("time.flops"), `${rateText(row.flops)}`, grouped(row.flops)],
    ["", t("time.moved"), bytesText(row.bytes), t("time.bytes", { n: grouped(row.bytes) })],
    ["", t("time.intensity"), row.intensity.toPrecision(3)],
    [row.phase ?? "", t("time.achieved"), rateText(row.achieved)],
  ];
  if (roofs)
    values.push([
      "total",
      t("time.roof_share"),
      `${((100 * row.achieved) / attainable(roofs, row.intensity)).toPrecision(3)}\u2009%`,
    ]);
  return values;
}
