// Parser of record files, which checks everything that the page relies on. Unchecked values can be of any type, hence
// `any`.

/** @import {BenchRecord} from "../core/bench.js" */

const FORMAT = "kvtheater-bench";
const VERSION = 1;

/** Error for a file that is not a record; `message` is the key of a text, filled with `values`. */
export class NotARecord extends Error {
  /** @param {string} message @param {Record<string, string>} values */
  constructor(message, values = {}) {
    super(message);
    this.values = values;
  }
}

/**
 * Parse the record in `text` and check what the page relies on. Throws NotARecord.
 * @param {string} text
 * @returns {BenchRecord}
 */
export function parseRecord(text) {
  let found;
  try {
    found = JSON.parse(text);
  } catch {
    throw new NotARecord("bench.drop.not_json");
  }
  if (found?.format !== FORMAT) throw new NotARecord("bench.drop.not_a_record");
  if (found.version !== VERSION) throw new NotARecord("bench.drop.version", { version: String(found.version) });
  const field = invalidField(found);
  if (field) throw new NotARecord("bench.drop.damaged", { field });
  return found;
}

/** @param {any} value */
const isText = (value) => typeof value === "string";
/** @param {any} value */
const isNumber = (value) => typeof value === "number" && Number.isFinite(value);
/** @param {any} value */
const isMap = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
/** @param {any} value */
const isBoth = (value) => isMap(value) && isText(value.en) && isText(value.zh);
/** @param {any} value */
const isValue = (value) => isText(value) || isNumber(value);
/** @param {any} value */
const isEstimate = (value) => isMap(value) && ["median", "low", "high"].every((name) => isNumber(value[name]));
/** @param {any} value */
const isFigure = (value) =>
  isEstimate(value) &&
  Array.isArray(value.samples) &&
  value.samples.every(isNumber) &&
  isMap(value.ratios) &&
  Object.values(value.ratios).every(isEstimate);
/** @param {any} list @param {(item: any) => boolean} check */
const isAll = (list, check) => Array.isArray(list) && list.every(check);

/** Return the first invalid field; null if all are valid. @param {any} record @returns {string | null} */
function invalidField(record) {
  const { scenario, environment } = record;
  const ids = isAll(scenario?.variants, (v) => isText(v?.id) && isBoth(v.title))
    ? new Set(scenario.variants.map((/** @type {{id: string}} */ v) => v.id))
    : null;
  /** @type {[field: string, isValid: boolean][]} */
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
          ids !== null &&
          ids.has(p.variant) &&
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
  return checks.find(([, isValid]) => !isValid)?.[0] ?? null;
}
