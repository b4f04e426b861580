// Charts of the shown records on shared axes: one metric, absolute and relative to a baseline. With several records,
// also a table of their differences.

import { inLanguage, t } from "../i18n/words.js";
import { html } from "../kit/html.js";
import { Select } from "../kit/inputs.js";
import { Chart } from "./chart.js";
import { Differences } from "./differences.js";
import { Legend } from "./legend.js";
import { link } from "./link.js";
import { baselinesOf, highest, isCategorical, metricsOf, variantTitle } from "./record.js";
import { whereParts } from "./where.js";

/** @import {BenchRecord} from "../core/bench.js" */
/** @import {MetricInfo} from "./record.js" */
/** @import {Shown} from "./store.js" */

const LINE_WIDTH = 150; // characters per line of a picture

/** @param {{all: Shown[], labels: Map<string, string>}} props */
export function Charts({ all, labels }) {
  const records = all.map(({ record }) => record);
  const metrics = metricsOf(records);
  const names = Object.keys(metrics);
  const metric = names.find((name) => name === link.metric.value) ?? names[0];
  if (!metric) return html`<p class="hint">${t("bench.chart.empty")}</p>`;
  const baselines = [...new Set(records.flatMap((record) => baselinesOf(record, metric)))];
  const against = baselines.find((id) => id === link.against.value) ?? baselines[0] ?? null;
  const most = highest(records, metric);
  const mostRatio = against === null ? 0 : Math.max(1, highest(records, metric, against));
  const rows = against === null ? [null] : [null, against];
  const where = all.flatMap(({ record }) => wrapLine(whereParts(record).join(" · "), LINE_WIDTH));
  return html`<section class="bench-graphs">
    <${Controls} records=${records} metrics=${metrics} metric=${metric} baselines=${baselines} against=${against} />
    <${Legend} all=${all} labels=${labels} metric=${metric} />
    <div class=${`bench-charts columns-${rows.length}`}>
      ${rows.map(
        (baseline) => html`<div class="bench-cell" key=${`${metric} ${baseline}`}>
          <${Chart} all=${all} labels=${labels} metric=${metric} against=${baseline}
            most=${baseline === null ? most : mostRatio} where=${where} />
        </div>`,
      )}
    </div>
    <p class="hint bench-note">${notes(all, against).join(" ")}</p>
    ${all.length > 1 ? html`<${Differences} all=${all} labels=${labels} metric=${metric} />` : null}
  </section>`;
}

/**
 * Selection of the metric and the baseline.
 * @typedef {{
 *   records: BenchRecord[],
 *   metrics: Record<string, MetricInfo>,
 *   metric: string,
 *   baselines: string[],
 *   against: string | null,
 * }} ControlsProps
 * @param {ControlsProps} props
 */
function Controls({ records, metrics, metric, baselines, against }) {
  const { source, better } = metrics[metric];
  const kind = [t(`bench.metric.${source}`), better && t(`bench.better.${better}`)].filter(Boolean).join("; ");
  const named = records.find(({ scenario }) => scenario.variants.some(({ id }) => id === against)) ?? records[0];
  return html`<div class="bench-controls">
    <label>${t("bench.metric")}
      <${Select} id="bench-metric" value=${metric}
        choices=${Object.entries(metrics).map(([name, { title }]) => [name, inLanguage(title)])}
        commit=${(/** @type {string} */ name) => (link.metric.value = name)} />
    </label>
    ${
      baselines.length > 1
        ? html`<label>${t("bench.against")}
          <${Select} id="bench-against" value=${against}
            choices=${baselines.map((id) => [id, variantTitle(named, id)])}
            commit=${(/** @type {string} */ id) => (link.against.value = id)} />
        </label>`
        : null
    }
    <p class="hint">${kind}</p>
  </div>`;
}

/** Return notes on how to read the charts. @param {Shown[]} all @param {string | null} against @returns {string[]} */
function notes(all, against) {
  const logarithmic = all.some(({ record }) => !isCategorical(record) && record.scenario.axis.scale === "log");
  const keys = [
    "bench.chart.note",
    logarithmic ? "bench.chart.note.log" : null,
    all.some(({ entry }) => entry?.traces.length) ? "bench.chart.note.click" : null,
    against === null ? "bench.ratio.none" : null,
  ];
  return keys.flatMap((key) => (key === null ? [] : [t(key)]));
}

/** Wrap a line at `width` characters, for a picture. @param {string} text @param {number} width */
function wrapLine(text, width) {
  const lines = [""];
  for (const part of text.split(" ")) {
    if (`${lines.at(-1)} ${part}`.length > width) lines.push("");
    lines[lines.length - 1] = `${lines.at(-1)} ${part}`.trim();
  }
  return lines;
}
