// Table of latencies beside the chart of sequences.

import { drawnGaps } from "../../core/series.js";
import { secondsText, t } from "../../i18n/words.js";
import { Swatch } from "../../kit/colour.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { Term } from "../../kit/term.js";
import { settings } from "../../state/settings.js";
import { shownSeq } from "../../state/store.js";
import { CHARTS } from "./charts.js";
import { MAX_GAPS } from "./sequences.js";

/**
 * @typedef {"queue" | "ttft" | "tpot" | "itl_max"} Latency
 * @typedef {"tokens" | Latency} Column
 */

/** @type {Latency[]} */
const LATENCIES = ["queue", "ttft", "tpot", "itl_max"];
/** @type {Column[]} */
const COLUMNS = ["tokens", ...LATENCIES];
/** @type {Set<Column>} */
const WIDE_ONLY = new Set(["queue", "itl_max"]); // hidden in narrow layouts; the chart's points show them too

/** Latencies of every sequence, and legend of the points. @param {{rows: import("./sequences.js").Row[]}} props */
export function Latencies({ rows }) {
  const { every } = drawnGaps(rows, MAX_GAPS);
  /** @type {Partial<Record<Column, string>>} */
  const keys = { queue: "queue", ttft: "ttft", tpot: "tpot", itl_max: "itl" };
  /** @param {Column} column */
  const head = (column) =>
    column === "ttft" || column === "tpot"
      ? html`<${Term} id=${column}>${t(`time.${column}`)}<//>`
      : t(`time.${column}`);
  return html`<div>
    <table class="latency-table num">
      <thead>
        <tr>
          <th scope="col">${t("time.sequence")} <${Fidelity} kind="derived" formula=${CHARTS.sequences.formula} /></th>
          ${COLUMNS.map(
            (column) => html`<th scope="col"
            class=${WIDE_ONLY.has(column) ? "wide" : ""}>${
              keys[column]
                ? html`<i
            class=${`chart-key inline ${keys[column]}`}></i>`
                : null
            } ${head(column)}</th>`,
          )}
        </tr>
      </thead>
      <tbody>
        ${rows.map(
          (row) => html`<tr key=${row.seq} class=${row.seq === shownSeq.value ? "shown" : ""}>
            <td><button aria-label=${t("sequence.show", { name: t("sequence.name", { id: row.seq }) })}
              onClick=${() => (settings.seq.value = row.seq)}><${Swatch} id=${row.seq} />${row.seq}</button></td>
            <td>${row.tokens}</td>
            ${LATENCIES.map(
              (column) => html`<td
              class=${WIDE_ONLY.has(column) ? "wide" : ""}>${secondsText(row[column])}</td>`,
            )}
          </tr>`,
        )}
      </tbody>
    </table>
    <p class="chart-note">${t("time.engine_time")} ${every > 1 ? t("time.thinned", { n: every }) : ""}</p>
  </div>`;
}
