// The four time charts: rows, Plotly figure and values of the shown record of each. Charts are stateless.

import { memoryRows, rooflineRows, sequenceRows, stepRows } from "../../core/series.js";
import { latencyFigure, latencyValues } from "./latency.js";
import { memoryFigure, memoryValues } from "./memory.js";
import { rooflineFigure, rooflineValues } from "./roofline.js";
import { sequenceFigure } from "./sequences.js";

/** @import {TraceLog} from "../../core/log.js" */

/**
 * Inputs of all charts.
 *
 * @typedef {{
 *   log: TraceLog | null, index: number,
 *   record: import("../../core/trace.js").StepRecord | null, roofs: import("../../net/rooflines.js").Roofs | null,
 * }} ChartInputs
 * @typedef {[key: string, name: string, text: string, title?: string]} Value of the record shown
 * @typedef {"latency" | "sequences" | "memory" | "roofline"} ChartName
 */

/**
 * Chart definitions. `figure` builds a Plotly figure from the rows, `values` lists values of the shown record, and
 * `csv` is the file name. The type of the rows is private to each chart.
 * @type {Record<ChartName, {
 *   rows: (at: ChartInputs & {log: TraceLog}) => any[],
 *   fidelity: "captured" | "derived",
 *   formula?: string,
 *   figure: (at: ChartInputs, rows: any[]) => {data: object[], layout: object},
 *   values?: (at: ChartInputs, rows: any[]) => Value[],
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
