// The four time charts: for each its rows, its Plotly figure, and the values of the record shown. No chart keeps a
// state.

import { attainable, ridge } from "../../core/metrics.js";
import { memoryRows, rooflineRows, sequenceRows, stepRows } from "../../core/series.js";
import { alpha, colours } from "../../kit/colour.js";
import { axis, stepBand } from "../../kit/plotly.js";
import { bytesText, grouped, secondsText, t } from "../../tell/words.js";

const PHASES = ["prefill", "decode", "mixed"];
const PARTS = ["sample", "prepare", "schedule"]; // above the forward pass
const MS = 1000;

const PREFIXES = [
  [1e15, "P"],
  [1e12, "T"],
  [1e9, "G"],
  [1e6, "M"],
  [1e3, "k"],
  [1, ""],
];

/** A rate with a decimal prefix, ready for its unit: 92.4 G. */
export function rateText(value) {
  const [size, prefix] = PREFIXES.find(([least]) => value >= least) ?? [1, ""];
  return `${Number((value / size).toPrecision(3))}\u2009${prefix}`;
}

/**
 * name -> {rows(at), fidelity, formula, figure(at, rows), values(at, rows), tip(at, rows, point)}. `at` is what the
 * page looks at: {log, index, record, roofs}. `values` are [[key, name, text, title], …] of the record shown.
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

// ── Step latency ─────────────────────────────────────────────────────────────────────────────────────────────────────

function latencyFigure({ record }, rows) {
  const palette = colours();
  const bar = (name, of, values, marker) => ({
    type: "bar",
    name,
    x: of.map((row) => row.step),
    y: values.map((seconds) => seconds * MS),
    customdata: of.map((row) => row.record),
    hoverinfo: "none",
    marker: { line: { width: 0 }, ...marker },
  });
  const forward = PHASES.map((phase) => {
    const of = rows.filter((row) => row.phase === phase);
    return bar(
      t(`time.forward.${phase}`),
      of,
      of.map((row) => row.forward),
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
    xaxis: axis(t("time.step"), { rangemode: "tozero", ...whole(rows.at(-1).step) }),
    yaxis: axis(t("time.ms"), { rangemode: "tozero", fixedrange: true }),
    shapes: record?.kind === "step" ? [stepBand(record.step)] : [],
  };
  return { data, layout };
}

/** Ticks of a short axis of whole numbers lie at whole numbers; 0 is no step. */
const whole = (last) => (last <= 10 ? { dtick: 1, range: [0.4, last + 0.6] } : { range: [0, last + 1] });

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

function latencyValues({ index }, rows) {
  const row = rowAt(rows, index);
  if (!row) return [];
  return [
    [row.phase, t(`time.forward.${row.phase}`), secondsText(row.forward)],
    ...PARTS.map((part) => [part, t(`time.${part}`), secondsText(row[part])]),
    ["total", t("time.total"), secondsText(row.total)],
  ];
}

/** The row of record `index` among rows that ascend by record; undefined when it has none. */
function rowAt(rows, index) {
  return rows.find((row) => row.record === index);
}

// ── Sequences ────────────────────────────────────────────────────────────────────────────────────────────────────────

function sequenceFigure(_, rows) {
  const palette = colours();
  const names = rows.map((row) => String(row.seq));
  const at = (values) => values.map((seconds) => (seconds === null ? null : seconds * MS));
  const every = rows.flatMap((row) => row.itl.map((seconds, i) => ({ seq: row.seq, seconds, token: i + 1 })));
  const shared = { hoverinfo: "none", customdata: rows.map((row) => [row.seq]) };
  const data = [
    {
      ...shared,
      type: "bar",
      name: t("time.queue"),
      x: names,
      y: at(rows.map((row) => row.queue)),
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
      y: at(rows.map((row) => (row.ttft === null ? null : row.ttft - (row.queue ?? 0)))),
      marker: { color: palette.prompt },
    },
    {
      type: "scatter",
      mode: "markers",
      name: t("time.itl"),
      x: every.map((point) => String(point.seq)),
      y: every.map((point) => point.seconds * MS),
      customdata: every.map((point) => [point.seq, point.token, point.seconds]),
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
      y: at(rows.map((row) => row.tpot)),
      xaxis: "x2",
      yaxis: "y2",
      marker: { symbol: "line-ew", size: 12, line: { width: 2.5, color: palette.ink } },
    },
  ];
  const sequences = (more) =>
    axis(t("time.seq"), { type: "category", categoryorder: "array", categoryarray: names, tickangle: 0, ...more });
  const layout = {
    hovermode: "closest",
    xaxis: sequences({ domain: [0, 0.42] }),
    yaxis: axis(t("time.ttft_axis"), { rangemode: "tozero", fixedrange: true }),
    xaxis2: sequences({ domain: [0.58, 1], anchor: "y2" }),
    yaxis2: axis(t("time.itl_axis"), { rangemode: "tozero", fixedrange: true, anchor: "x2" }),
  };
  return { data, layout };
}

// ── Memory ───────────────────────────────────────────────────────────────────────────────────────────────────────────

function memoryFigure({ record }, everything) {
  const palette = colours();
  // areas stack on distinct steps: the last record of each
  const rows = everything.filter((row, i) => everything[i + 1]?.step !== row.step);
  const unit = 1024 ** Math.max(0, Math.floor(Math.log2(Math.max(1, rows[0].pool)) / 10));
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
  const last = rows.at(-1).step;
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

function memoryValues({ index }, rows) {
  const row = rowAt(rows, index);
  if (!row) return [];
  return ["used", "wasted", "held", "cached", "pool"].map((field) => [
    field,
    t(`time.${field}`),
    bytesText(row[field]),
    t("time.bytes", { n: grouped(row[field]) }),
  ]);
}

// ── Roofline ─────────────────────────────────────────────────────────────────────────────────────────────────────────

const SYMBOLS = { prefill: "square", decode: "circle", mixed: "diamond" };

function rooflineFigure({ index, roofs }, rows) {
  const palette = colours();
  const data = PHASES.map((phase) => {
    const of = rows.filter((row) => row.phase === phase);
    return {
      type: "scatter",
      mode: "markers",
      name: t(`time.${phase}`),
      x: of.map((row) => row.intensity),
      y: of.map((row) => row.achieved),
      customdata: of.map((row) => row.record),
      hoverinfo: "none",
      marker: {
        symbol: SYMBOLS[phase],
        size: of.map((row) => (row.record === index ? 11 : 7)),
        color: alpha(phase === "decode" ? palette.generated : palette.prompt, phase === "mixed" ? 0.9 : 0.6),
        line: {
          color: of.map((row) =>
            row.record === index ? palette.ink : phase === "mixed" ? palette.generated : palette.paper,
          ),
          width: of.map((row) => (row.record === index ? 2 : 1)),
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
  const annotations = [];
  if (roofs) {
    const bend = ridge(roofs);
    data.unshift({
      type: "scatter",
      mode: "lines",
      name: t("time.roofline"),
      x: [left, bend, right],
      y: [left, bend, right].map((x) => attainable(roofs, x)),
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
      hovermode: "closest",
      dragmode: false,
      xaxis: log(t("time.intensity"), left, right),
      yaxis: log(t("time.flops_axis"), bottom, top),
      annotations,
    },
  };
}

function rooflineValues({ index, roofs }, rows) {
  const row = rowAt(rows, index);
  if (!row) return [];
  const values = [
    ["", t("time.flops"), `${rateText(row.flops)}`, grouped(row.flops)],
    ["", t("time.moved"), bytesText(row.bytes), t("time.bytes", { n: grouped(row.bytes) })],
    ["", t("time.intensity"), row.intensity.toPrecision(3)],
    [row.phase, t("time.achieved"), rateText(row.achieved)],
  ];
  if (roofs)
    values.push([
      "total",
      t("time.roof_share"),
      `${((100 * row.achieved) / attainable(roofs, row.intensity)).toPrecision(3)}\u2009%`,
    ]);
  return values;
}
