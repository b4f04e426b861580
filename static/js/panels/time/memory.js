// Chart of memory: contents of the pool after each step, stacked.

import { memoryRows } from "../../core/series.js";
import { bytesText, grouped, t } from "../../i18n/words.js";
import { alpha, colours } from "../../kit/colour.js";
import { axis, stepBand } from "../../kit/plotly.js";
import { rowAt } from "./rows.js";

/** @import {ChartInputs, Value} from "./charts.js" */

/**
 * @typedef {ReturnType<typeof memoryRows>[number]} Row
 * @typedef {"used" | "wasted" | "held" | "cached" | "pool"} Field
 */

/** @type {Field[]} */
const FIELDS = ["used", "wasted", "held", "cached", "pool"];

/** @param {ChartInputs} at @param {Row[]} all */
export function memoryFigure({ record }, all) {
  const palette = colours();
  // stacked areas need distinct steps: use the last record of each
  const rows = all.filter((row, i) => all[i + 1]?.step !== row.step);
  const unit = 1024 ** Math.max(0, Math.floor(Math.log2(Math.max(1, rows[0].pool)) / 10));
  /** @type {(field: Field, fill: object, line: object) => object} */
  const area = (field, fill, line) => ({
    type: "scatter",
    mode: "lines",
    name: t(`time.${field}`),
    stackgroup: "bytes",
    x: rows.map((row) => row.step),
    y: rows.map((row) => row[field] / unit),
    customdata: rows.map((row) => row.record),
    hoverinfo: "none",
    line: { shape: "hv", width: 1.2, ...line },
    ...fill,
  });
  const hatch = {
    shape: "/",
    fillmode: "replace",
    fgcolor: palette.waste,
    bgcolor: "rgba(0,0,0,0)",
    size: 5,
    solidity: 0.3,
  };
  const last = rows.at(-1)?.step ?? 0;
  const data = [
    area("used", { fillcolor: alpha(palette.sequences[0], 0.6) }, { color: palette.sequences[0] }),
    area("wasted", { fillcolor: "rgba(0,0,0,0)", fillpattern: hatch }, { color: palette.waste }),
    area("cached", { fillcolor: alpha(palette["ink-3"], 0.08) }, { color: palette["ink-3"], dash: "dot" }),
    {
      type: "scatter",
      mode: "lines",
      name: t("time.pool"),
      x: [0, last],
      y: [rows[0].pool / unit, rows[0].pool / unit],
      hoverinfo: "skip",
      line: { color: palette.fault, width: 1.2, dash: "dash" },
    },
  ];
  const layout = {
    hovermode: "x",
    xaxis: axis(t("time.step"), { range: [0, Math.max(last, 1)], ...(last <= 10 && { dtick: 1 }) }),
    yaxis: axis(bytesText(unit).replace(/^1\u2009/, ""), {
      range: [0, (1.06 * rows[0].pool) / unit],
      fixedrange: true,
    }),
    shapes: record ? [stepBand(record.step)] : [],
  };
  return { data, layout };
}

/** @param {ChartInputs} at @param {Row[]} rows @returns {Value[]} */
export function memoryValues({ index }, rows) {
  const row = rowAt(rows, index);
  if (!row) return [];
  return FIELDS.map((field) => [
    field,
    t(`time.${field}`),
    bytesText(row[field]),
    t("time.bytes", { n: grouped(row[field]) }),
  ]);
}
