// Chart of step latency: the forward pass and the rest of each step.

import { stepRows } from "../../core/series.js";
import { secondsText, t } from "../../i18n/words.js";
import { colours } from "../../kit/colour.js";
import { axis, stepBand } from "../../kit/plotly.js";
import { MS, PHASES, rowAt } from "./rows.js";

/** @import {Palette} from "../../kit/colour.js" */
/** @import {ChartInputs, Value} from "./charts.js" */

/** @typedef {ReturnType<typeof stepRows>[number]} Row */

/** @type {("sample" | "prepare" | "schedule")[]} above the forward pass */
const PARTS = ["sample", "prepare", "schedule"];

/** @param {ChartInputs} at @param {Row[]} rows */
export function latencyFigure({ record }, rows) {
  const palette = colours();
  /** @type {(name: string, of: Row[], values: number[], marker: object) => {x: number[], [field: string]: unknown}} */
  const bar = (name, phaseRows, values, marker) => ({
    type: "bar",
    name,
    x: phaseRows.map((row) => row.step),
    y: values.map((seconds) => seconds * MS),
    customdata: phaseRows.map((row) => row.record),
    hoverinfo: "none",
    marker: { line: { width: 0 }, ...marker },
  });
  const forward = PHASES.map((phase) => {
    const phaseRows = rows.filter((row) => row.phase === phase);
    return bar(
      t(`time.forward.${phase}`),
      phaseRows,
      phaseRows.map((row) => row.forward),
      phaseMarker(palette, phase),
    );
  });
  const others = PARTS.map((part) =>
    bar(
      t(`time.${part}`),
      rows,
      rows.map((row) => row[part]),
      partMarker(palette, part),
    ),
  );
  const data = [...forward, ...others].filter((trace) => trace.x.length > 0);
  const layout = {
    hovermode: "x",
    xaxis: axis(t("time.step"), { rangemode: "tozero", ...tickSettings(rows.at(-1)?.step ?? 0) }),
    yaxis: axis(t("time.ms"), { rangemode: "tozero", fixedrange: true }),
    shapes: record?.kind === "step" ? [stepBand(record.step)] : [],
  };
  return { data, layout };
}

/** Return axis settings with ticks at whole numbers for short axes; 0 is no step. @param {number} last */
const tickSettings = (last) => (last <= 10 ? { dtick: 1, range: [0.4, last + 0.6] } : { range: [0, last + 1] });

/** @param {Palette} palette @param {import("./rows.js").StepPhase} phase */
function phaseMarker(palette, phase) {
  if (phase !== "mixed") return { color: phase === "prefill" ? palette.prompt : palette.generated };
  return {
    color: palette.prompt,
    pattern: {
      shape: "/",
      fillmode: "replace",
      fgcolor: palette.generated,
      bgcolor: palette.prompt,
      size: 6,
      solidity: 0.5,
    },
  };
}

/** @param {Palette} palette @param {typeof PARTS[number]} part */
function partMarker(palette, part) {
  const shape = { sample: ".", prepare: "/", schedule: "" }[part];
  return {
    color: palette["ink-3"],
    pattern: {
      shape,
      fillmode: "replace",
      fgcolor: palette["ink-3"],
      bgcolor: palette["line-2"],
      size: 4,
      solidity: 0.4,
    },
  };
}

/** @param {ChartInputs} at @param {Row[]} rows @returns {Value[]} */
export function latencyValues({ index }, rows) {
  const row = rowAt(rows, index);
  if (!row) return [];
  /** @type {(part: typeof PARTS[number]) => Value} */
  const part = (name) => [name, t(`time.${name}`), secondsText(row[name])];
  return [
    [row.phase ?? "", t(`time.forward.${row.phase}`), secondsText(row.forward)],
    ...PARTS.map(part),
    ["total", t("time.total"), secondsText(row.total)],
  ];
}
