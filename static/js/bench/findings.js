// Findings: results in everyday words, and whether the predefined threshold was met.

import { inLanguage, t } from "../i18n/words.js";
import { html } from "../kit/html.js";
import { gainOf, gainText } from "./gains.js";
import { metricOf } from "./record.js";
import { estimateText, quantityText } from "./words.js";

/** @import {BenchRecord} from "../core/bench.js" */
/** @import {MetricInfo} from "./record.js" */

/** @typedef {BenchRecord["findings"][number]} Finding */

/** Return the threshold in the unit of the value. @param {Pick<Finding, "bar" | "unit">} finding */
export function barText({ bar, unit }) {
  if (bar === "holds 1") return t("bench.holds_1");
  const [, sign, number] = bar.match(/^([≥≤]) ([\d.e+-]+)$/) ?? [];
  return sign ? `${sign} ${quantityText(Number(number), unit)}` : bar;
}

/**
 * Whether the threshold was met, by sign, colour and word; empty without a threshold.
 * @param {{finding: Finding}} props
 */
export function Verdict({ finding }) {
  const { met, bar } = finding;
  if (met === null || !bar) return null;
  return html`<span class=${met ? "bench-met" : "bench-missed"}>
    <i aria-hidden="true">${met ? "✓" : "✗"}</i> ${barText(finding)}: ${t(met ? "bench.met" : "bench.not_met")}
  </span>`;
}

/** @type {Record<string, {name: string, sign: string}>} by `good` of a gain: class, and a sign independent of color */
const LOOKS = {
  true: { name: "better", sign: "▲" },
  false: { name: "worse", sign: "▼" },
  null: { name: "even", sign: "=" },
};

/** Ratio in words, with a sign for better or worse. @param {{gain: import("./gains.js").Gain}} props */
export function GainText({ gain }) {
  const { name, sign } = LOOKS[String(gain.good)];
  return html`<span class=${`bench-gain ${name}`}>
    <i aria-hidden="true">${sign}</i> <b>${gainText(gain)}</b>${
      gain.good === null ? null : html`<span class="visually-hidden"> (${t(`bench.${name}`)})</span>`
    }
  </span>`;
}

/**
 * Result: a ratio in words and as a number, anything else as a number.
 * @param {{finding: Finding, metric: string, info: MetricInfo | undefined}} props `info`: of the finding's metric
 */
export function Result({ finding, metric, info }) {
  if (finding.unit !== "×" || !info) return html`<b>${findingText(finding)}</b>`;
  const { value: median, low, high } = finding;
  return html`<${GainText} gain=${gainOf(metric, info, { median, low, high })} />${" "}
    <span class="hint">${findingText(finding)}</span>`;
}

/** @param {Finding} finding */
const findingText = (finding) =>
  estimateText({ median: finding.value, low: finding.low, high: finding.high }, finding.unit);

/**
 * Headlines of the shown records, one line each with a value per record.
 * @param {{all: import("./store.js").Shown[], labels: Map<string, string>}} props
 */
export function Findings({ all, labels }) {
  const titles = [
    ...new Map(all.flatMap(({ record }) => record.findings.map((found) => [found.title.en, found.title]))).values(),
  ];
  if (!titles.length) return null;
  return html`<section aria-labelledby="bench-findings">
    <h3 id="bench-findings">${t("bench.findings")}</h3>
    <dl class="bench-findings num">
      ${titles.map(
        (title) => html`<div key=${title.en}>
          <dt>${inLanguage(title)}</dt>
          ${all.map(({ id, record }) => {
            const found = record.findings.find((finding) => finding.title.en === title.en);
            const metric = found ? metricOf(record, found) : "";
            const result = html`<${Result} finding=${found} metric=${metric} info=${record.metrics[metric]} />`;
            return html`<dd key=${id}>
              <span>${found ? result : html`<b>–</b>`}</span>
              ${found ? html`<${Verdict} finding=${found} />` : null}
              ${all.length > 1 ? html`<span class="hint">${labels.get(id)}</span>` : null}
            </dd>`;
          })}
        </div>`,
      )}
    </dl>
  </section>`;
}
