// Data for charts, tables and downloads of benchmark records (docs/reference/benchmark-records.md). No DOM here.

import { csvText } from "../core/csv.js";
import { inLanguage } from "../i18n/words.js";

/** @import {BenchRecord} from "../core/bench.js" */

/**
 * @typedef {BenchRecord["points"][number]} Point
 * @typedef {Point["figures"][string]} Figure
 * @typedef {BenchRecord["metrics"][string]} MetricInfo
 * @typedef {BenchRecord["scenario"]["variants"][number]} Variant
 * @typedef {{at: Point["at"], title: {en: string, zh: string} | null}} AxisPoint
 * @typedef {{at: Point["at"], median: number, low: number, high: number, figure: Figure, point: Point}} CurvePoint
 * @typedef {{variant: Variant, index: number, points: CurvePoint[]}} Curve `index`: the variant's index in the scenario
 */

/**
 * Return whether the axis is categorical, or its values are names despite a numeric scale.
 * @param {BenchRecord} record
 */
export const isCategorical = (record) =>
  record.scenario.axis.scale === "category" || !record.axis_values.every(Number.isFinite);

/** Return a variant's title, or its id if the scenario lacks it. @param {BenchRecord} record @param {string} id */
export const variantTitle = (record, id) =>
  inLanguage(record.scenario.variants.find((variant) => variant.id === id)?.title ?? { en: id, zh: id });

/** Return the points of the axis in order. @param {BenchRecord} record @returns {AxisPoint[]} */
export function axisPoints(record) {
  const titles = new Map(record.scenario.axis.cases.map((found) => [found.value, found.title ?? null]));
  return record.axis_values.map((at) => ({ at, title: titles.get(at) ?? null }));
}

/**
 * Return the points of the axis of all records: numbers ascending, names in the order of the first record that has
 * them.
 * @param {BenchRecord[]} records
 * @returns {AxisPoint[]}
 */
export function placesOf(records) {
  const places = new Map(records.flatMap((record) => axisPoints(record)).map((place) => [place.at, place]));
  const all = [...places.values()];
  return isCategorical(records[0]) ? all : all.sort((a, b) => Number(a.at) - Number(b.at));
}

/** @param {BenchRecord} record @param {Point["at"]} at @param {string} variant */
export const pointAt = (record, at, variant) =>
  record.points.find((point) => point.at === at && point.variant === variant);

/**
 * Return one curve per variant with the metric; ratios to the baseline `against` if it is given.
 * @param {BenchRecord} record
 * @param {string} metric
 * @param {string | null} against
 * @returns {Curve[]}
 */
export function curves(record, metric, against = null) {
  return record.scenario.variants
    .map((variant, index) => ({
      variant,
      index,
      points: axisPoints(record).flatMap(({ at }) => {
        const point = pointAt(record, at, variant.id);
        const figure = point?.figures[metric];
        const values = against === null ? figure : figure?.ratios[against];
        return point && figure && values
          ? [{ at, median: values.median, low: values.low, high: values.high, figure, point }]
          : [];
      }),
    }))
    .filter(({ points }) => points.length > 0);
}

/**
 * Return the variants of all records, each once; the index determines the style.
 * @param {BenchRecord[]} records
 * @returns {Variant[]}
 */
export function variantsOf(records) {
  const all = records.flatMap(({ scenario }) => scenario.variants);
  return all.filter(({ id }, i) => all.findIndex((other) => other.id === id) === i);
}

/**
 * Return the baselines to which another variant has ratios of the metric.
 * @param {BenchRecord} record
 * @param {string} metric
 */
export function baselinesOf(record, metric) {
  const compared = (/** @type {string} */ baseline) =>
    record.points.some((point) => point.variant !== baseline && point.figures[metric]?.ratios[baseline]);
  return record.scenario.baselines.filter(compared);
}

/**
 * Return the largest upper bound of all curves of the records, for a shared y axis.
 * @param {BenchRecord[]} records
 * @param {string} metric
 * @param {string | null} against
 */
export function highest(records, metric, against = null) {
  return Math.max(
    0,
    ...records.flatMap((record) =>
      curves(record, metric, against).flatMap(({ points }) => points.map((point) => point.high)),
    ),
  );
}

/**
 * Return the metrics of all records by name, each as the first record with it describes it.
 * @param {BenchRecord[]} records
 * @returns {Record<string, MetricInfo>}
 */
export const metricsOf = (records) => Object.assign({}, ...records.toReversed().map((record) => record.metrics));

/**
 * Return the metric of a finding; an older record has it only in the headline of the same title.
 * @param {BenchRecord} record
 * @param {BenchRecord["findings"][number]} finding
 */
export const metricOf = ({ scenario }, { metric, title }) =>
  metric || (scenario.headlines?.find((headline) => headline.title.en === title.en)?.metric ?? "");

/**
 * Return the failed points, one entry per variant and reason.
 * @param {BenchRecord} record
 * @returns {{variant: string, why: string, at: Point["at"][]}[]}
 */
export function failures(record) {
  const found = new Map();
  for (const point of record.points.filter((p) => p.failed)) {
    const entry = found.get(`${point.variant}\n${point.failed}`) ?? {
      variant: point.variant,
      why: point.failed,
      at: [],
    };
    entry.at.push(point.at);
    found.set(`${point.variant}\n${point.failed}`, entry);
  }
  return [...found.values()];
}

const COLUMNS = [
  "record",
  "created",
  "scenario",
  "axis",
  "at",
  "variant",
  "metric",
  "unit",
  "median",
  "low",
  "high",
  "samples",
  "ratio_to",
  "ratio",
  "ratio_low",
  "ratio_high",
  "tokens_identical",
  "failed",
];

/**
 * Return all figures of the records as CSV, one line per figure and baseline.
 * @param {{id: string, record: BenchRecord}[]} named
 */
export function csvOf(named) {
  /** @type {import("../core/csv.js").Cell[][]} */
  const lines = [COLUMNS];
  for (const { id, record } of named) {
    for (const point of record.points) {
      const head = [
        id,
        record.environment.created,
        record.scenario.id,
        record.scenario.axis.name,
        point.at,
        point.variant,
      ];
      const tail = [point.tokens_identical ?? "", point.failed];
      const figures = Object.entries(point.figures);
      if (!figures.length)
        lines.push([...head, ...Array(COLUMNS.length - head.length - tail.length).fill(""), ...tail]);
      for (const [metric, figure] of figures) {
        const own = [
          metric,
          record.metrics[metric]?.unit ?? "",
          figure.median,
          figure.low,
          figure.high,
          figure.samples,
        ];
        const ratios = Object.entries(figure.ratios);
        if (!ratios.length) lines.push([...head, ...own, "", "", "", "", ...tail]);
        for (const [baseline, ratio] of ratios)
          lines.push([...head, ...own, baseline, ratio.median, ratio.low, ratio.high, ...tail]);
      }
    }
  }
  return csvText(lines);
}
