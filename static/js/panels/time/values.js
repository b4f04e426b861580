// Values of the shown record beside a chart, and the measurement of the roofs.

import { ridge } from "../../core/metrics.js";
import { bytesText, t } from "../../i18n/words.js";
import { withDates } from "../../kit/dates.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { tips } from "../../kit/tooltip.js";
import { roofs } from "../../net/rooflines.js";
import { log } from "../../state/store.js";
import { CHARTS } from "./charts.js";
import { rateText } from "./rows.js";

/** @import {ChartInputs, ChartName} from "./charts.js" */

/** @param {{name: ChartName, children: import("../../kit/html.js").Children}} props */
function Title({ name, children }) {
  const { fidelity, formula = "" } = CHARTS[name];
  return html`<h3 class="panel-title num">${children} <${Fidelity} kind=${fidelity} formula=${formula} /></h3>`;
}

/** @param {{name: ChartName, at: ChartInputs, rows: object[]}} props */
export function Values({ name, at, rows }) {
  const values = rows.length ? (CHARTS[name].values?.(at, rows) ?? []) : [];
  return html`<div>
    <${Title} name=${name}>${
      at.record ? t("time.record", { record: at.index + 1, step: at.record.step }) : t(`time.${name}`)
    }<//>
    ${rows.length && !values.length ? html`<p class="hint">${t("time.nothing")}</p>` : null}
    <dl class="chart-values num">
      ${values.map(
        ([key, label, text, exact]) => html`<dt class=${key === "total" ? "total" : ""}>${
          key && key !== "total" && key !== "held"
            ? html`<i
          class=${`chart-key ${key}`}></i>`
            : null
        }${label}</dt>
          <dd class=${key === "total" ? "total" : ""}
            ...${exact ? { tabindex: 0, ...tips([exact]) } : {}}>${text}</dd>`,
      )}
    </dl>
    ${name === "roofline" && rows.length ? html`<${Roofs} />` : null}
  </div>`;
}

/** Measurement of the roofs, or the reason why they are unknown. */
function Roofs() {
  const measured = roofs.value;
  if (typeof measured === "string") return html`<p class="chart-note">${t(`time.roof.${measured}`)}</p>`;
  const machine = log.value?.header.machine;
  if (!machine) return null;
  return html`<p class="chart-note num">
    ${t("time.roof.peak_how", {
      value: rateText(measured.flops_per_second),
      n: measured.matmul_size,
      dtype: measured.dtype,
      runs: measured.matmul_runs,
    })}${" "}
    ${t("time.roof.bandwidth_how", {
      value: rateText(measured.bytes_per_second),
      bytes: bytesText(measured.copy_bytes),
      runs: measured.copy_runs,
    })}${" "}
    ${withDates(
      t("time.roof.when", {
        date: measured.measured_at.slice(0, 10),
        device: machine.processor && machine.device === "cpu" ? machine.processor : machine.device,
        threads: measured.num_threads,
        ridge: ridge(measured).toPrecision(3),
      }),
    )}${" "}
    ${t("time.roof.cache_note")}
  </p>`;
}
