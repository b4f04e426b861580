// Plotly figure of a record's curves: lines over a numeric axis, grouped bars over a categorical one. y begins at 0.

import { inLanguage, t } from "../i18n/words.js";
import { colours } from "../kit/colour.js";
import { axis, baseLayout } from "../kit/plotly.js";
import { curves, isCategorical, placesOf, variantsOf, variantTitle } from "./record.js";
import { atText, measureOf, unitText } from "./words.js";

/** @import {BenchRecord} from "../core/bench.js" */
/** @import {Measure} from "./words.js" */

/**
 * Selection of curves. `records`: those compared; `against`: a baseline, or null; `most`: the highest value on
 * the y axis.
 * @typedef {{records: BenchRecord[], metric: string, against: string | null, most: number}} Curves
 *
 * @typedef {{width: number, height: number}} Size in CSS pixels
 */

/** Styles of variants by index in the scenario: a colour of the sequences' palette, plus dash, marker and pattern. */
const STYLES = [
  { colour: 5, dash: "solid", symbol: "circle", pattern: "" },
  { colour: 4, dash: "dash", symbol: "square", pattern: "/" },
  { colour: 2, dash: "dot", symbol: "diamond", pattern: "x" },
  { colour: 3, dash: "dashdot", symbol: "triangle-up", pattern: "-" },
  { colour: 1, dash: "longdash", symbol: "cross", pattern: "|" },
  { colour: 0, dash: "longdashdot", symbol: "x", pattern: "." },
  { colour: 7, dash: "solid", symbol: "star", pattern: "+" },
  { colour: 6, dash: "dash", symbol: "pentagon", pattern: "\\" },
];

/** Styles of records on one chart by index: line and hatching. Markers of all but the first are open. */
export const RECORD_STYLES = [
  { dash: "solid", pattern: "" },
  { dash: "dash", pattern: "/" },
  { dash: "dot", pattern: "x" },
  { dash: "dashdot", pattern: "-" },
];

/**
 * Return the style of a variant of a record: colour and marker by variant; the line by variant for a single record,
 * else by record.
 * @param {number} index of the variant
 * @param {number} place index of the record
 * @param {number} count number of records
 */
export function curveStyle(index, place, count) {
  const own = styleOf(index);
  if (count === 1) return { ...own, open: false };
  return { ...own, ...RECORD_STYLES[place % RECORD_STYLES.length], open: place > 0 };
}

/**
 * Escape a text for Plotly, which would otherwise parse tags and write style attributes for them.
 * @param {string} text
 */
const literal = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");

/** @param {number} index of the variant */
export const styleOf = (index) => STYLES[index % STYLES.length];

/** Return the figure for Plotly. @param {Curves & Size} options */
export function figure({ records, metric, against, most, width, height }) {
  const palette = colours();
  const first = records.find((record) => record.metrics[metric]) ?? records[0];
  const measure = measureOf(against === null ? (first.metrics[metric]?.unit ?? "") : "×", most);
  const bars = isCategorical(first);
  const order = variantsOf(records).map(({ id }) => id);
  const found = records
    .flatMap((record, place) => curves(record, metric, against).map((curve) => ({ ...curve, place })))
    .map((curve) => ({ ...curve, index: order.indexOf(curve.variant.id) }))
    .sort((a, b) => a.index - b.index);
  const data = found.map(({ variant, index, points, place }) => {
    const style = curveStyle(index, place, records.length);
    const colour = palette.sequences[style.colour];
    const error_y = {
      type: "data",
      visible: points.some((p) => p.low < p.high),
      symmetric: false,
      array: points.map((p) => (p.high - p.median) * measure.factor),
      arrayminus: points.map((p) => (p.median - p.low) * measure.factor),
      color: bars ? palette.ink : colour,
      thickness: 1.2,
      width: bars ? 3 : 4,
    };
    const shared = {
      name: literal(inLanguage(variant.title)),
      x: points.map((p) => (bars ? String(p.at) : p.at)),
      y: points.map((p) => p.median * measure.factor),
      customdata: points.map((p) => [variant.id, p.at, place]),
      hoverinfo: "none",
      error_y,
    };
    if (!bars)
      return {
        ...shared,
        type: "scatter",
        mode: "lines+markers",
        line: { color: colour, width: 1.8, dash: style.dash },
        marker: style.open
          ? { color: palette.paper, symbol: style.symbol, size: 8, line: { width: 1.6, color: colour } }
          : { color: colour, symbol: style.symbol, size: 8, line: { width: 1, color: palette.paper } },
      };
    return {
      ...shared,
      type: "bar",
      marker: {
        color: colour,
        line: { width: 0 },
        pattern: {
          shape: style.pattern,
          fillmode: "overlay",
          fgcolor: palette.paper,
          fgopacity: 0.9,
          size: 6,
          solidity: 0.25,
        },
      },
    };
  });
  const layout = {
    ...baseLayout(width, height),
    barmode: "group",
    bargap: 0.25,
    margin: { l: 56, r: 12, t: 10, b: 44 },
    dragmode: false,
    hovermode: "closest",
    separators: ".\u2009",
    xaxis: bars ? names(records, width) : numbers(records),
    yaxis: axis(literal(yTitle(first, metric, against, measure)), {
      range: [0, most > 0 ? most * measure.factor * 1.06 : 1],
      fixedrange: true,
      tickformat: ",~r",
      separatethousands: true,
      nticks: 6,
    }),
    shapes:
      against === null
        ? []
        : [
            {
              type: "line",
              xref: "paper",
              x0: 0,
              x1: 1,
              y0: 1,
              y1: 1,
              line: { color: palette["ink-3"], width: 1, dash: "dot" },
              layer: "below",
            },
          ],
  };
  return { data, layout };
}

/** @param {BenchRecord} record @param {string} metric @param {string | null} against @param {Measure} measure */
function yTitle(record, metric, against, measure) {
  if (against !== null) return t("bench.ratio.axis", { baseline: variantTitle(record, against) });
  return measure.unit || inLanguage(record.metrics[metric].title);
}

/** Return the axis title with its unit and whether it is logarithmic. @param {BenchRecord} record */
function axisTitle(record) {
  const { title, unit, scale } = record.scenario.axis;
  const more = [
    unit && !inLanguage(title).includes(unitText(unit)) && unitText(unit),
    !isCategorical(record) && scale === "log" && t("bench.chart.log"),
  ].filter(Boolean);
  return more.length ? `${inLanguage(title)} (${more.join(", ")})` : inLanguage(title);
}

/** Return an axis with a tick at each measured value only. @param {BenchRecord[]} records */
function numbers(records) {
  const places = placesOf(records);
  const values = places.map(({ at }) => Number(at));
  const log = records[0].scenario.axis.scale === "log" && values.every((value) => value > 0);
  const scaled = log ? values.map(Math.log10) : values;
  const [first, last] = [Math.min(...scaled), Math.max(...scaled)];
  const margin = (last - first || 1) * 0.06;
  return axis(literal(axisTitle(records[0])), {
    type: log ? "log" : "linear",
    range: [first - margin, last + margin],
    tickmode: "array",
    tickvals: values,
    ticktext: places.map((where) => literal(atText(where))),
    tickangle: 0,
    fixedrange: true,
    showgrid: false,
    zeroline: false,
  });
}

/** @param {BenchRecord[]} records @param {number} width */
function names(records, width) {
  const points = placesOf(records);
  const perName = Math.max(8, Math.floor((width - 70) / points.length / 7));
  return axis(literal(axisTitle(records[0])), {
    type: "category",
    categoryorder: "array",
    categoryarray: points.map(({ at }) => String(at)),
    tickmode: "array",
    tickvals: points.map(({ at }) => String(at)),
    ticktext: points.map((point) => wrapped(atText(point), perName)),
    tickangle: 0,
    fixedrange: true,
    showgrid: false,
    automargin: true,
  });
}

/**
 * Wrap a text at about `width` characters; Chinese characters count double.
 * @param {string} text
 * @param {number} width
 */
export function wrapped(text, width) {
  const lines = [""];
  const size = (/** @type {string} */ part) => [...part].reduce((sum, letter) => sum + (letter > "\u2e7f" ? 2 : 1), 0);
  for (const part of text.match(/[\u2e80-\uffff]|[^\s\u2e80-\uffff]+|\s+/g) ?? []) {
    const last = lines[lines.length - 1];
    if (size(last + part) > width && last.trim() && part.trim()) lines.push("");
    lines[lines.length - 1] += part;
  }
  return lines.map((line) => literal(line.trim())).join("<br>");
}

/**
 * Return the figure of a standalone picture, with title, legend, and lines that say where it was measured.
 * @param {Curves & Size} options
 * @param {string} title
 * @param {string} subtitle
 * @param {string[]} where
 */
export function picture(options, title, subtitle, where) {
  const palette = colours();
  const { data, layout } = figure(options);
  const font = { size: 15, color: palette["ink-2"] };
  const look = {
    ...layout,
    xaxis: { ...layout.xaxis, title: { ...layout.xaxis.title, font } },
    yaxis: { ...layout.yaxis, title: { ...layout.yaxis.title, font } },
    margin: { l: 84, r: 28, t: 108, b: 110 },
    paper_bgcolor: palette.paper,
    plot_bgcolor: palette.paper,
    font: { ...layout.font, size: 15 },
    showlegend: true,
    legend: { orientation: "h", x: 0, y: 1.01, yanchor: "bottom", font: { color: palette.ink } },
    title: { text: literal(title), x: 0.03, y: 0.965, yanchor: "top", font: { size: 20, color: palette.ink } },
    annotations: [
      {
        text: literal(subtitle),
        showarrow: false,
        xref: "paper",
        yref: "paper",
        x: 0,
        y: 1,
        yshift: 50,
        xanchor: "left",
        yanchor: "bottom",
        font,
      },
      {
        text: where.map(literal).join("<br>"),
        showarrow: false,
        xref: "paper",
        yref: "paper",
        x: 0,
        y: 0,
        yshift: -104,
        xanchor: "left",
        yanchor: "bottom",
        align: "left",
        font: { size: 11, color: palette["ink-3"] },
      },
    ],
  };
  return { data, layout: look };
}
