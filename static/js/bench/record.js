// A benchmark record as the charts, the table and the downloads read it (engine/bench/RECORDS.md). No DOM here.

import { csvText } from "../core/csv.js";

const FORMAT = "kvtheater-bench";
const VERSION = 1;

/** What was given is not a record; `message` is the key of a text, `values` go into it. */
export class NotARecord extends Error {
  constructor(message, values = {}) {
    super(message);
    this.values = values;
  }
}

/** The record in `text`, checked as far as the page relies on it. Throws NotARecord. */
export function parseRecord(text) {
  let found;
  try {
    found = JSON.parse(text);
  } catch {
    throw new NotARecord("bench.drop.not_json");
  }
  if (found?.format !== FORMAT) throw new NotARecord("bench.drop.not_a_record");
  if (found.version !== VERSION) throw new NotARecord("bench.drop.version", { version: String(found.version) });
  const wrong = fault(found);
  if (wrong) throw new NotARecord("bench.drop.damaged", { field: wrong });
  return found;
}

const isText = (value) => typeof value === "string";
const isNumber = (value) => typeof value === "number" && Number.isFinite(value);
const isMap = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const isBoth = (value) => isMap(value) && isText(value.en) && isText(value.zh);
const isValue = (value) => isText(value) || isNumber(value);
const isEstimate = (value) => isMap(value) && ["median", "low", "high"].every((name) => isNumber(value[name]));
const isFigure = (value) =>
  isEstimate(value) &&
  Array.isArray(value.samples) &&
  value.samples.every(isNumber) &&
  isMap(value.ratios) &&
  Object.values(value.ratios).every(isEstimate);
const isAll = (list, check) => Array.isArray(list) && list.every(check);

/** The first field that is not as it must be; null when all are. */
function fault(record) {
  const { scenario, environment } = record;
  const ids = isAll(scenario?.variants, (v) => isText(v?.id) && isBoth(v.title))
    ? new Set(scenario.variants.map((v) => v.id))
    : null;
  const checks = [
    ["scenario", isMap(scenario) && isText(scenario.id) && isBoth(scenario.title) && isBoth(scenario.text)],
    ["scenario.variants", ids !== null && ids.size > 0],
    [
      "scenario.axis",
      isMap(scenario?.axis) &&
        isBoth(scenario.axis.title) &&
        isText(scenario.axis.unit) &&
        ["linear", "log", "category"].includes(scenario.axis.scale) &&
        isAll(scenario.axis.cases, (c) => isValue(c?.value)),
    ],
    ["scenario.baselines", isAll(scenario?.baselines, isText)],
    [
      "environment",
      isMap(environment) &&
        isMap(environment.machine) &&
        isMap(environment.machine.versions) &&
        isText(environment.created) &&
        isText(environment.command),
    ],
    ["rounds", isNumber(record.rounds)],
    ["peers", isMap(record.peers)],
    ["axis_values", isAll(record.axis_values, isValue)],
    [
      "metrics",
      isMap(record.metrics) && Object.values(record.metrics).every((m) => isText(m?.unit) && isBoth(m.title)),
    ],
    [
      "points",
      isAll(
        record.points,
        (p) =>
          isMap(p) &&
          isValue(p.at) &&
          ids?.has(p.variant) &&
          isText(p.failed) &&
          isMap(p.figures) &&
          Object.values(p.figures).every(isFigure),
      ),
    ],
    [
      "findings",
      isAll(record.findings, (f) => isBoth(f?.title) && isNumber(f.value) && isText(f.unit) && isText(f.bar)),
    ],
  ];
  return checks.find(([, holds]) => !holds)?.[0] ?? null;
}

/** Whether the axis is one of names; a scale of numbers whose values are names is one too. */
export const isCategorical = (record) =>
  record.scenario.axis.scale === "category" || !record.axis_values.every(isNumber);

/** The points of the axis in order: [{at, title: {en, zh} or null}]. */
export function axisPoints(record) {
  const titles = new Map(record.scenario.axis.cases.map((found) => [found.value, found.title ?? null]));
  return record.axis_values.map((at) => ({ at, title: titles.get(at) ?? null }));
}

export const pointAt = (record, at, variant) =>
  record.points.find((point) => point.at === at && point.variant === variant);

/**
 * One curve for each variant that has the metric: [{variant, index, points: [{at, median, low, high, figure, point}]}].
 * `against`: a baseline, then the values are ratios to it.
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
        return values ? [{ at, median: values.median, low: values.low, high: values.high, figure, point }] : [];
      }),
    }))
    .filter(({ points }) => points.length > 0);
}

/** The baselines to which another variant's figures of the metric have a ratio. */
export function baselinesOf(record, metric) {
  const compared = (baseline) =>
    record.points.some((point) => point.variant !== baseline && point.figures[metric]?.ratios[baseline]);
  return record.scenario.baselines.filter(compared);
}

/** The largest upper end of all curves of the records: what one y axis for all of them must hold. */
export function highest(records, metric, against = null) {
  return Math.max(
    0,
    ...records.flatMap((record) =>
      curves(record, metric, against).flatMap(({ points }) => points.map((point) => point.high)),
    ),
  );
}

/** Metrics of any of the records: name -> what the first record that has it says of it. */
export const metricsOf = (records) => Object.assign({}, ...records.toReversed().map((record) => record.metrics));

/** Points that have no figures, and why: [{point, variants}] with one entry for each reason. */
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

/** Every figure of the records, a line each (and one more for each further baseline). `named`: [{id, record}]. */
export function csvOf(named) {
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
