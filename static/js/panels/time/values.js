// Values of the shown record beside a chart, and how the roofs were measured.

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

/** @import {At, ChartName} from "./charts.js" */

/** @param {{name: ChartName, children: import("../../kit/html.js").Children}} props */
function Title({ name, children }) {
  const { fidelity, formula = "" } = CHARTS[name];
  return html`<h3 class="panel-title num">${children} <${Fidelity} kind=${fidelity} formula=${formula} /></h3>`;
}

/** @param {{name: ChartName, at: At, rows: object[]}} props */
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
  const known = roofs.value;
  if (typeof known === "string") return html`<p class="chart-note">${t(`time.roof.${known}`)}</p>`;
  const machine = log.value?.header.machine;
  if (!machine) return null;
  return html`<p class="chart-note num">
    ${t("time.roof.peak_how", {
      value: rateText(known.flops_per_second),
      n: known.matmul_size,
      dtype: known.dtype,
      runs: known.matmul_runs,
    })}${" "}
    ${t("time.roof.bandwidth_how", {
      value: rateText(known.bytes_per_second),
      bytes: bytesText(known.copy_bytes),
      runs: known.copy_runs,
    })}${" "}
    ${withDates(
      t("time.roof.when", {
        date: known.measured_at.slice(0, 10),
        device: machine.processor && machine.device === "cpu" ? machine.processor : machine.device,
        threads: known.num_threads,
        ridge: ridge(known).toPrecision(3),
      }),
    )}${" "}
    ${t("time.roof.cache_note")}
  </p>`;
}
