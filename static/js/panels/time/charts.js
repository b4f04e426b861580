// The four time charts: for each its rows, its Plotly figure, and the values of the record shown. No chart keeps a
// state.

import { memoryRows, rooflineRows, sequenceRows, stepRows } from "../../core/series.js";
import { latencyFigure, latencyValues } from "./latency.js";
import { memoryFigure, memoryValues } from "./memory.js";
import { rooflineFigure, rooflineValues } from "./roofline.js";
import { sequenceFigure } from "./sequences.js";

/**
 * What the page looks at.
 *
 * @typedef {{
 *   log: import("../../core/log.js").TraceLog | null, index: number,
 *   record: import("../../core/trace.js").StepRecord | null, roofs: import("../../net/machine.js").Roofs | null,
 * }} At
 * @typedef {[key: string, name: string, text: string, title?: string]} Value of the record shown
 * @typedef {"latency" | "sequences" | "memory" | "roofline"} ChartName
 */

/**
 * `figure` makes a Plotly figure of the rows, `values` what is said of the record shown. `csv`: name of its file. Rows
 * are each chart's own: only its own functions read them.
 *
 * @type {Record<ChartName, {
 *   rows: (at: At & {log: import("../../core/log.js").TraceLog}) => any[],
 *   fidelity: "captured" | "derived",
 *   formula?: string,
 *   figure: (at: At, rows: any[]) => {data: object[], layout: object},
 *   values?: (at: At, rows: any[]) => Value[],
 *   csv: string,
 * }>}
 */
export const CHARTS = {
  latency: {
    rows: ({ log }) => stepRows(log),
    fidelity: "captured",
    figure: latencyFigure,
    values: latencyValues,
    csv: "step-latency",
  },
  sequences: {
    rows: ({ log, index }) => sequenceRows(log, index).filter((row) => row.tokens > 0 || row.queue !== null),
    fidelity: "derived",
    formula: [
      "TTFT = t(first token) − t(submitted)",
      "TPOT = (t(last) − t(first)) / (n − 1)",
      "t = Σ schedule + prepare + forward + sample",
    ].join("; "),
    figure: sequenceFigure,
    csv: "sequence-latency",
  },
  memory: {
    rows: ({ log }) => memoryRows(log),
    fidelity: "captured",
    figure: memoryFigure,
    values: memoryValues,
    csv: "memory",
  },
  roofline: {
    rows: ({ log }) => rooflineRows(log),
    fidelity: "derived",
    formula: "x = FLOPs / (weight + KV bytes read + KV bytes written); y = FLOPs / forward seconds",
    figure: rooflineFigure,
    values: rooflineValues,
    csv: "roofline",
  },
};
