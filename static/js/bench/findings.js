// Headlines: what came out, and whether the bar that was set before was met.

import { html } from "../kit/html.js";
import { inLanguage, t } from "../tell/words.js";
import { estimateText, quantityText } from "./words.js";

/**
 * @typedef {import("./record.js").BenchRecord} BenchRecord
 * @typedef {BenchRecord["findings"][number]} Finding
 */

/**
 * The bar in the unit of the value.
 * @param {Pick<Finding, "bar" | "unit">} finding
 */
export function barText({ bar, unit }) {
  if (bar === "holds 1") return t("bench.holds_1");
  const [, sign, number] = bar.match(/^([≥≤]) ([\d.e+-]+)$/) ?? [];
  return sign ? `${sign} ${quantityText(Number(number), unit)}` : bar;
}

/**
 * Met or not, by sign, colour and word.
 * @param {{finding: Finding}} props
 */
export function Verdict({ finding }) {
  const { met, bar } = finding;
  if (met === null || !bar) return html`<span class="hint">${t("bench.no_bar")}</span>`;
  return html`<span class=${met ? "bench-met" : "bench-missed"}>
    <i aria-hidden="true">${met ? "✓" : "✗"}</i> ${barText(finding)}: ${t(met ? "bench.met" : "bench.not_met")}
  </span>`;
}

/** @param {Finding} finding */
export const findingText = (finding) =>
  estimateText({ median: finding.value, low: finding.low, high: finding.high }, finding.unit);

/**
 * The headlines of the records shown, one line each; a value for each record.
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
            return html`<dd key=${id}>
              <b>${found ? findingText(found) : "–"}</b>
              ${found ? html`<${Verdict} finding=${found} />` : null}
              ${all.length > 1 ? html`<span class="hint">${labels.get(id)}</span>` : null}
            </dd>`;
          })}
        </div>`,
      )}
    </dl>
  </section>`;
}
