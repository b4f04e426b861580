// Learning gain: the questions by kind before the first lesson and after the last one, side by side.

import { learn } from "../../control/lesson.js";
import { csvText } from "../../core/csv.js";
import { t } from "../../i18n/words.js";
import { html } from "../../kit/html.js";
import { kept } from "../../state/lessons.js";

/** @typedef {import("../../state/lessons.js").Result} Result */

/** @type {Record<Result, string>} */
const MARKS = { right: "✓", wrong: "✗", unsure: "?" };

/** Return the results of both tests by kind of question, in the order of asking. */
function rows() {
  const [before, after] = ["before", "after"].map((id) => kept.value[id]?.results ?? {});
  const rules = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return rules.map((rule) => ({ rule, before: before[rule] ?? null, after: after[rule] ?? null }));
}

export function Gain() {
  const found = rows();
  const right = (/** @type {"before" | "after"} */ when) => found.filter((row) => row[when] === "right").length;
  const both = found.some((row) => row.before) && found.some((row) => row.after);
  return html`<div class="lesson-over" role="status">
    <p>${
      both
        ? t("lesson.gain", { before: right("before"), after: right("after"), n: found.length })
        : t("lesson.gain_first", { right: right("before") + right("after"), n: found.length })
    }</p>
    <table class="gain">
      <thead><tr><th scope="col">${t("lesson.gain_kind")}</th><th scope="col">${t("lesson.gain_before")}</th><th
        scope="col">${t("lesson.gain_after")}</th></tr></thead>
      <tbody>${found.map(
        ({ rule, before, after }) => html`<tr key=${rule}><th scope="row">${t(`lesson.kind.${rule}`)}</th>
          <${Mark} result=${before} /><${Mark} result=${after} /></tr>`,
      )}</tbody>
    </table>
    <div class="lesson-ends">
      <button class="command primary" id="lesson-next" onClick=${() => learn(null)}>${t("lesson.all")}</button>
      <a class="quiet" id="lesson-csv" download="learned.csv" href=${address(found)}>CSV</a>
    </div>
    <p class="hint">${t("lesson.gain_stays")}</p>
  </div>`;
}

/** @param {{result: Result | null}} props */
function Mark({ result }) {
  if (!result) return html`<td>–</td>`;
  return html`<td data-result=${result} aria-label=${t(`lesson.result.${result}`)}>${MARKS[result]}</td>`;
}

/** @param {ReturnType<typeof rows>} found */
function address(found) {
  const lines = [["question", "before", "after"], ...found.map((row) => [row.rule, row.before ?? "", row.after ?? ""])];
  return `data:text/csv;charset=utf-8,${encodeURIComponent(csvText(lines))}`;
}
