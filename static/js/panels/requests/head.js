// Head of the request table: search, filters, views, and export.

import { csvText } from "../../core/csv.js";
import { isShared } from "../../core/request_parts.js";
import { grouped, t } from "../../i18n/words.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { withValue } from "../../kit/inputs.js";
import { onlyRule, RequestChoices } from "../../kit/request_table.js";
import { saveText } from "../../kit/save.js";
import { settings } from "../../state/settings.js";
import { log } from "../../state/store.js";
import { Legend } from "./bar.js";
import { showsBars, showsLists } from "./columns.js";

/** @import {Row} from "../../core/requests.js" */

/** @type {[name: string, of: (row: Row) => import("../../core/csv.js").Cell][]} */
const CELLS = [
  ["seq_id", (row) => row.seq],
  ["request_id", (row) => row.request],
  ["client", (row) => row.client],
  ["prompt_tokens", (row) => row.prompt],
  ["cached_tokens", (row) => row.hit],
  ["output_tokens", (row) => row.output],
  ["missed_seconds_after_eviction", (row) => row.missed],
  ["lane_seconds", (row) => row.lane],
  ["queue_seconds", (row) => row.queue],
  ["prefill_seconds", (row) => row.prefill],
  ["moving_seconds", (row) => row.moving],
  ["moved_bytes", (row) => row.moved],
  ["decode_seconds", (row) => row.decode],
  ["preempted_seconds", (row) => row.away],
  ["preemptions", (row) => row.preempted],
  ["tokens_computed_again", (row) => row.lost],
  ["ttft_seconds", (row) => row.ttft],
  ["tpot_seconds", (row) => row.tpot],
  ["slow_steps", (row) => row.slow],
  ["submitted_at_seconds", (row) => row.begin],
  ["ended_at_seconds", (row) => row.until],
  ["end", (row) => row.end],
];

/** @param {readonly Row[]} rows */
export const csvOfRows = (rows) =>
  csvText([CELLS.map(([name]) => name), ...rows.map((row) => CELLS.map(([, of]) => of(row)))]);

/** @typedef {"table" | "story" | "lists"} View visible part in narrow layouts */

const VIEWS = /** @type {const} */ (["table", "timeline", "lists"]);

/**
 * @param {{found: readonly Row[], all: readonly Row[], isWide: boolean, shown: View, show: (view: View) => void}} props
 *   `found`: the rows that are shown
 */
export function Head({ found, all, isWide, shown, show }) {
  const isTable = isWide || shown === "table";
  return html`<header class="requests-head">
    <input type="search" id="requests-find" value=${settings.find.value ?? ""} placeholder=${t("requests.find")}
      aria-label=${t("requests.find")} onInput=${withValue((text) => (settings.find.value = text || null))} />
    <${RequestChoices} rows=${all} />
    <span class="hint num" role="status">${
      found.length === all.length
        ? t("requests.all", { n: grouped(all.length), count: all.length })
        : t("requests.found", { n: grouped(found.length), all: grouped(all.length) })
    } <${Fidelity} kind="derived" formula=${formulaText()} /></span>
    ${
      isTable
        ? html`<button class="link" id="requests-csv" disabled=${!found.length} title=${t("requests.csv")}
            aria-label=${t("requests.csv")} onClick=${() => saveCsv(found)}>CSV</button>`
        : null
    }
    <span class="segmented-small" role="group" aria-label=${t("requests.view")}>
      ${VIEWS.map(
        (name) => html`<button key=${name} id=${`requests-${name}`} title=${t(`requests.view.${name}.tip`)}
          aria-pressed=${isPressed(name, isWide, shown)} onClick=${() => selectView(name, isWide, show)}
          >${t(`requests.view.${name}`)}</button>`,
      )}
    </span>
    ${isTable && settings.only.value ? html`<p class="requests-rule">${onlyRule()}</p>` : null}
    ${isTable && showsBars.value ? html`<${Legend} />` : null}
  </header>`;
}

/** @param {typeof VIEWS[number]} name @param {boolean} isWide @param {View} shown */
function isPressed(name, isWide, shown) {
  if (name === "lists" && isWide) return showsLists.value;
  return name === (isWide || shown === "table" ? (showsBars.value ? "timeline" : "table") : shown);
}

/** @param {typeof VIEWS[number]} name @param {boolean} isWide @param {(view: View) => void} show */
function selectView(name, isWide, show) {
  if (name === "lists" && isWide) return void (showsLists.value = !showsLists.value);
  if (name === "lists") return show(name);
  showsBars.value = name === "timeline";
  return show("table");
}

/** Formula with the clock of the times. */
const formulaText = () => t(log.value && isShared(log.value) ? "requests.formula.shared" : "requests.formula");

/** @param {readonly Row[]} rows */
const saveCsv = (rows) => saveText(csvOfRows(rows), `requests-${(log.peek()?.header.created ?? "").slice(0, 10)}.csv`);
