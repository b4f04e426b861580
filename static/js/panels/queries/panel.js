// Queries over the complete log, predefined or in SQL. They need a server.

import { useEffect, useState } from "../../../vendor/preact/hooks.js";
import { jumpTo } from "../../control/playback.js";
import { language, refusalText } from "../../i18n/language.js";
import { grouped, t } from "../../i18n/words.js";
import { html } from "../../kit/html.js";
import { runAddress } from "../../net/commands.js";
import { log, numRecords, own } from "../../state/store.js";
import { ByClass } from "./by_class.js";
import { pollAnswer } from "./poll_answer.js";
import { WhatIf } from "./what_if.js";

/** @import {Refusal} from "../../i18n/language.js" */

/** Panel for runs that the server has. */
export function Panel() {
  const address = runAddress("what_if");
  if (address === null) return null;
  const observed = Boolean((own.large.value?.header ?? log.value?.header)?.observed);
  return html`<div class="queries" key=${address}>
    <${QueryForm} observed=${observed} />
    ${observed ? null : html`<${WhatIf} address=${address} /><${ByClass} address=${runAddress("survey/classes")} />`}
  </div>`;
}

const RECORD = /(^|_)(record|in)$/; // columns with record numbers, which are links
const MAX_CELL = 24; // characters of a cell; the tooltip has the complete text

/**
 * @typedef {{id: string, observed: boolean, en: string, zh: string, sql: string}} Question
 * @typedef {string | number | null} Value
 * @typedef {{columns: string[], rows: Value[][], is_cut: boolean, num_records: number}} Answer
 * @typedef {{answer: Answer | null, problem: Refusal | null, waiting: string | null}} QueryState `waiting`: reason for
 *   waiting
 */

/** @type {QueryState} */
const NOTHING = { answer: null, problem: null, waiting: null };

/** @param {{observed: boolean}} props `observed`: whether the log is a monitored server's */
function QueryForm({ observed }) {
  const [saved, setSaved] = useState(/** @type {Question[]} */ ([]));
  const [sql, setSql] = useState("");
  const [query, setQuery] = useState(/** @type {{sql: string} | null} */ (null)); // a new object for each query
  const [{ answer, problem, waiting }, setFound] = useState(NOTHING);
  const address = runAddress("query");
  useEffect(() => {
    if (address === null) return;
    fetch("api/questions")
      .then((found) => found.json())
      .then(({ questions }) => setSaved(questions))
      .catch((error) => setFound({ ...NOTHING, problem: error }));
  }, [address === null]);
  useEffect(() => {
    if (!query || address === null) return undefined;
    setFound({ ...NOTHING, waiting: t("queries.ask.waits") });
    return pollAnswer(
      `${address}?${new URLSearchParams(query)}`,
      (found) => {
        setFound({ ...NOTHING, answer: found });
        return true;
      },
      (refusal) => setFound({ ...NOTHING, problem: refusal }),
      () => setFound({ ...NOTHING, waiting: t("queries.ask.making") }),
    );
  }, [query]);
  if (address === null) return null;
  const submit = (/** @type {string} */ text) => {
    setSql(text);
    setQuery({ sql: text });
  };
  const isRunning = waiting !== null;
  return html`<section aria-labelledby="queries-ask" id="ask-log">
    <h3 class="panel-title" id="queries-ask">${t("queries.ask")}</h3>
    <p class="hint">${t(observed ? "queries.ask.hint.observed" : "queries.ask.hint")}</p>
    <ul class="ask-kept">
      ${saved
        .filter((one) => one.observed === observed)
        .map(
          (one) => html`<li key=${one.id}>
          <button class="ask-question" data-question=${one.id} aria-pressed=${one.sql === sql} disabled=${isRunning}
            onClick=${() => submit(one.sql)}>${language.value === "zh" ? one.zh : one.en}</button>
        </li>`,
        )}
    </ul>
    <form class="ask-sql" onSubmit=${(/** @type {Event} */ event) => {
      event.preventDefault();
      submit(sql);
    }}>
      <textarea rows="4" spellcheck=${false} aria-label=${t("queries.ask.sql")} value=${sql}
        placeholder="SELECT type, count(*) AS n FROM events GROUP BY type"
        onInput=${(/** @type {any} */ { target }) => setSql(target.value)}></textarea>
      <button class="quiet" disabled=${isRunning || !sql.trim()} aria-busy=${isRunning}>${t("queries.ask.do")}</button>
    </form>
    ${waiting ? html`<p class="hint" role="status" id="ask-waits">${waiting}</p>` : null}
    ${problem ? html`<p class="ask-problem" role="alert">${refusalText(problem)}</p>` : null}
    ${answer ? html`<${Result} answer=${answer} />` : null}
  </section>`;
}

/** Number of records of the shown log, loaded or indexed. */
const recordCount = () => (own.large.value ? own.numRecords.value : numRecords.value);

/** @param {{answer: Answer}} props */
function Result({ answer: { columns, rows, is_cut: isCut, num_records: count } }) {
  const text = t(isCut ? "queries.ask.cut" : "queries.ask.found", { n: grouped(rows.length), count: rows.length });
  const older = recordCount() > count ? ` ${t("queries.ask.older", { n: grouped(count) })}` : "";
  return html`<p class="hint" role="status">${text}${older}</p>
    ${
      rows.length
        ? html`<div class="ask-found" tabindex="0" role="region" aria-labelledby="queries-ask"><table>
          <thead><tr>${columns.map(
            (name, i) => html`<th key=${i} scope="col" data-number=${typeof rows[0][i] === "number"}>${name}</th>`,
          )}</tr></thead>
          <tbody>${rows.map(
            (row, i) =>
              html`<tr key=${i}>${row.map(
                (value, column) => html`<td key=${column} data-number=${typeof value === "number"}>
                <${Cell} name=${columns[column]} value=${value} />
              </td>`,
              )}</tr>`,
          )}</tbody>
        </table></div>`
        : null
    }`;
}

/** @param {{name: string, value: Value}} props */
function Cell({ name, value }) {
  if (value === null) return html`–`;
  const text = String(value);
  if (RECORD.test(name) && typeof value === "number" && value < recordCount())
    return html`<button class="ask-record" title=${t("queries.ask.go", { n: grouped(value + 1) })}
      onClick=${() => jumpTo(value)}>${text}</button>`;
  return text.length > MAX_CELL ? html`<span title=${text}>${text.slice(0, MAX_CELL - 1)}…</span>` : text;
}
