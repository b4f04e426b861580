// The list of lessons, with duration and progress.

import { useLayoutEffect, useRef } from "../../../vendor/preact/hooks.js";
import { openLesson } from "../../control/lesson.js";
import { MINUTES, openTour, STOPS, tourState } from "../../control/tour.js";
import { csvText } from "../../core/csv.js";
import { inLanguage, t } from "../../i18n/words.js";
import { useFirstFocus } from "../../kit/focus.js";
import { html } from "../../kit/html.js";
import { cards, dueReviews, REVIEW, storedProgress } from "../../state/lessons.js";
import { modelFacts } from "../../state/store.js";
import { isEmbedded } from "../../state/without_server.js";

/** @import {Result} from "../../state/lessons.js" */

export function LessonList() {
  const all = cards.value;
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  useFirstFocus("lesson", "lesson-list");
  useLayoutEffect(() => box.current?.closest(".lesson")?.scrollTo({ top: 0, behavior: "instant" }), []);
  return html`<div class="path" ref=${box}>
    <h1 class="lesson-title" id="lesson-list" tabindex="-1">${t("lesson.path")}</h1>
    <p class="path-lead">${t("lesson.path_lead")}</p>
    <ol class="path-list">
      ${isEmbedded ? null : html`<${Tour} />`}
      ${all === null ? html`<li class="path-lead"><span role="status">${t("lesson.wait")}</span></li>` : null}
      ${all?.length === 0 ? html`<li class="path-lead">${t("lesson.none")}</li>` : null}
      ${(all ?? []).map((card) => [
        card.kind === "after" ? html`<${ReviewCard} key="again" />` : null,
        html`<${Entry} key=${card.id} card=${card} />`,
      ])}
    </ol>
  </div>`;
}

/** The tour of the page, before the first lesson. */
function Tour() {
  const { state, at } = tourState.value;
  return html`<li><button class="path-card" id="path-tour" data-state=${state} onClick=${openTour}>
    <span class="path-number num">0</span>
    <span class="path-title">${t("lesson.zero")}</span>
    <span class="path-minutes num">${t("lesson.minutes", { n: MINUTES })}</span>
    <span class="path-state">${t(`lesson.zero.${state}`, { i: at + 1, n: STOPS.length })}</span>
  </button></li>`;
}

/** Review of the questions that were answered wrong and did not recur in a later lesson. */
function ReviewCard() {
  const { length: n } = dueReviews.value;
  if (!n) return null;
  return html`<li><button class="path-card" id="path-again" onClick=${() => openLesson(REVIEW)}>
    <span class="path-number num">?</span>
    <span class="path-title">${t("lesson.review")}</span>
    <span class="path-state">${t("lesson.review_text", { n })}</span>
  </button></li>`;
}

/** @param {{card: import("../../core/wire.js").Card}} props */
function Entry({ card }) {
  const progress = storedProgress.value[card.id];
  const isTest = card.kind !== "lesson";
  const state = progress?.over ? "over" : progress ? "begun" : "new";
  const { model, refused, num_questions: n } = card;
  const hasModel = modelFacts.value?.live !== false;
  const text = t(refused ? `lesson.refused.${hasModel ? "other" : "none"}` : `lesson.state.${state}`, { n, model });
  return html`<li><button class="path-card" id=${`path-${card.id}`} data-state=${state}
    disabled=${card.refused !== null} onClick=${() => openLesson(card.id)}>
    <span class="path-number num">${isTest ? "?" : card.number || ""}</span>
    <span class="path-title">${inLanguage(card.title)}</span>
    <span class="path-minutes num">${t("lesson.minutes", { n: card.minutes })}</span>
    <span class="path-state">${text}</span>
  </button></li>`;
}

// Learning gain: results by kind of question, before the first lesson and after the last one, side by side.

/** @type {Record<Result, string>} */
const MARKS = { right: "✓", wrong: "✗", unsure: "?" };

/** Return the results of both tests by kind of question, in the order of the questions. */
function rows() {
  const [before, after] = ["before", "after"].map((id) => storedProgress.value[id]?.results ?? {});
  const rules = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return rules.map((rule) => ({ rule, before: before[rule] ?? null, after: after[rule] ?? null }));
}

export function Gain() {
  const results = rows();
  const countRight = (/** @type {"before" | "after"} */ when) => results.filter((row) => row[when] === "right").length;
  const hasBoth = results.some((row) => row.before) && results.some((row) => row.after);
  return html`<div class="lesson-over" role="status">
    <p>${
      hasBoth
        ? t("lesson.gain", { before: countRight("before"), after: countRight("after"), n: results.length })
        : t("lesson.gain_first", { right: countRight("before") + countRight("after"), n: results.length })
    }</p>
    <table class="gain">
      <thead><tr><th scope="col">${t("lesson.gain_kind")}</th><th scope="col">${t("lesson.gain_before")}</th><th
        scope="col">${t("lesson.gain_after")}</th></tr></thead>
      <tbody>${results.map(
        ({ rule, before, after }) => html`<tr key=${rule}><th scope="row">${t(`lesson.kind.${rule}`)}</th>
          <${Mark} result=${before} /><${Mark} result=${after} /></tr>`,
      )}</tbody>
    </table>
    <div class="lesson-ends">
      <button class="command primary" id="lesson-next" onClick=${() => openLesson(null)}>${t("lesson.all")}</button>
      <a class="quiet" id="lesson-csv" download="learned.csv" href=${csvAddress(results)}>CSV</a>
    </div>
    <p class="hint">${t("lesson.gain_stays")}</p>
  </div>`;
}

/** @param {{result: Result | null}} props */
function Mark({ result }) {
  if (!result) return html`<td>–</td>`;
  return html`<td data-result=${result} aria-label=${t(`lesson.result.${result}`)}>${MARKS[result]}</td>`;
}

/** @param {ReturnType<typeof rows>} results */
function csvAddress(results) {
  const values = results.map((row) => [row.rule, row.before ?? "", row.after ?? ""]);
  const lines = [["question", "before", "after"], ...values];
  return `data:text/csv;charset=utf-8,${encodeURIComponent(csvText(lines))}`;
}
