// Questions over the whole log: those that are kept, and in SQL. The server answers; a run in a file has none.

import { useEffect, useState } from "../../../vendor/preact/hooks.js";
import { jumpTo } from "../../control/playback.js";
import { html } from "../../kit/html.js";
import { runAddress } from "../../net/commands.js";
import { numRecords } from "../../state/store.js";
import { language } from "../../tell/language.js";
import { grouped, t } from "../../tell/words.js";

const RECORD = /(^|_)(record|in)$/; // columns that name a record: a click goes there
const WIDEST = 24; // characters of a cell; all of it is its tip

/**
 * @typedef {{id: string, en: string, zh: string, sql: string}} Question
 * @typedef {string | number | null} Value
 * @typedef {{columns: string[], rows: Value[][], is_cut: boolean, num_records: number}} Answer
 * @typedef {{answer: Answer | null, problem: string | null, asking: boolean}} Asked
 */

/** @type {Asked} */
const NOTHING = { answer: null, problem: null, asking: false };

/** @param {string} address @returns {Promise<any>} */
async function answered(address) {
  const answer = await fetch(address);
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error.message);
  return found;
}

export function AskSection() {
  const [kept, setKept] = useState(/** @type {Question[]} */ ([]));
  const [sql, setSql] = useState("");
  const [{ answer, problem, asking }, setAsked] = useState(NOTHING);
  const address = runAddress("query");
  const failed = (/** @type {unknown} */ error) =>
    setAsked({ ...NOTHING, problem: /** @type {Error} */ (error).message });
  useEffect(() => {
    if (address !== null) answered("api/questions").then(({ questions }) => setKept(questions), failed);
  }, [address === null]);
  if (address === null) return null;
  const ask = async (/** @type {string} */ text) => {
    setSql(text);
    setAsked({ ...NOTHING, asking: true });
    try {
      setAsked({ ...NOTHING, answer: await answered(`${address}?${new URLSearchParams({ sql: text })}`) });
    } catch (error) {
      failed(error);
    }
  };
  return html`<section aria-labelledby="requests-ask" id="ask-log">
    <h3 class="panel-title" id="requests-ask">${t("requests.ask")}</h3>
    <p class="hint">${t("requests.ask.hint")}</p>
    <ul class="ask-kept">
      ${kept.map(
        (one) => html`<li key=${one.id}>
          <button class="ask-question" data-question=${one.id} aria-pressed=${one.sql === sql} disabled=${asking}
            onClick=${() => ask(one.sql)}>${language.value === "zh" ? one.zh : one.en}</button>
        </li>`,
      )}
    </ul>
    <form class="ask-sql" onSubmit=${(/** @type {Event} */ event) => {
      event.preventDefault();
      ask(sql);
    }}>
      <textarea rows="4" spellcheck=${false} aria-label=${t("requests.ask.sql")} value=${sql}
        placeholder="SELECT type, count(*) FROM events GROUP BY type"
        onInput=${(/** @type {any} */ { target }) => setSql(target.value)}></textarea>
      <button class="quiet" disabled=${asking || !sql.trim()} aria-busy=${asking}>${t("requests.ask.do")}</button>
    </form>
    ${problem ? html`<p class="ask-problem" role="alert">${problem}</p>` : null}
    ${answer ? html`<${Found} answer=${answer} />` : null}
  </section>`;
}

/** @param {{answer: Answer}} props */
function Found({ answer: { columns, rows, is_cut: isCut, num_records: count } }) {
  const said = t(isCut ? "requests.ask.cut" : "requests.ask.found", { n: grouped(rows.length), count: rows.length });
  const older = numRecords.value > count ? ` ${t("requests.ask.older", { n: grouped(count) })}` : "";
  return html`<p class="hint" role="status">${said}${older}</p>
    ${
      rows.length
        ? html`<div class="ask-found" tabindex="0" role="region" aria-labelledby="requests-ask"><table>
          <thead><tr>${columns.map((name, i) => html`<th key=${i} scope="col">${name}</th>`)}</tr></thead>
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
  if (RECORD.test(name) && typeof value === "number" && value < numRecords.value)
    return html`<button class="ask-record" title=${t("requests.ask.go", { n: grouped(value + 1) })}
      onClick=${() => jumpTo(value)}>${text}</button>`;
  return text.length > WIDEST ? html`<span title=${text}>${text.slice(0, WIDEST - 1)}…</span>` : text;
}
