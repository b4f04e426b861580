// The list of lessons, with duration and progress.

import { useLayoutEffect, useRef } from "../../../vendor/preact/hooks.js";
import { learn } from "../../control/lesson.js";
import { learnTour, MINUTES, STOPS, tourWay } from "../../control/tour.js";
import { inLanguage, t } from "../../i18n/words.js";
import { html } from "../../kit/html.js";
import { isEmbedded } from "../../state/embedded.js";
import { cards, kept, leftOver, REVIEW } from "../../state/lessons.js";
import { modelFacts } from "../../state/store.js";

export function LessonList() {
  const all = cards.value;
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  useLayoutEffect(() => box.current?.closest(".lesson")?.scrollTo({ top: 0, behavior: "instant" }), []);
  return html`<div class="path" ref=${box}>
    <h1 class="lesson-title">${t("lesson.path")}</h1>
    <p class="path-lead">${t("lesson.path_lead")}</p>
    ${all === null ? html`<p role="status">${t("lesson.wait")}</p>` : null}
    <ol class="path-list">
      ${isEmbedded ? null : html`<${Tour} />`}
      ${all?.length === 0 ? html`<li class="path-lead">${t("lesson.none")}</li>` : null}
      ${(all ?? []).map((card) => [
        card.kind === "after" ? html`<${OnceMore} key="again" />` : null,
        html`<${Entry} key=${card.id} card=${card} />`,
      ])}
    </ol>
  </div>`;
}

/** The tour of the page, listed before the first lesson. */
function Tour() {
  const { state, at } = tourWay.value;
  return html`<li><button class="path-card" id="path-tour" data-state=${state} onClick=${learnTour}>
    <span class="path-number num">0</span>
    <span class="path-title">${t("lesson.zero")}</span>
    <span class="path-minutes num">${t("lesson.minutes", { n: MINUTES })}</span>
    <span class="path-state">${t(`lesson.zero.${state}`, { i: at + 1, n: STOPS.length })}</span>
  </button></li>`;
}

/** Review of questions that were answered wrong and did not recur in a later lesson. */
function OnceMore() {
  const { length: n } = leftOver.value;
  if (!n) return null;
  return html`<li><button class="path-card" id="path-again" onClick=${() => learn(REVIEW)}>
    <span class="path-number num">?</span>
    <span class="path-title">${t("lesson.review")}</span>
    <span class="path-state">${t("lesson.review_text", { n })}</span>
  </button></li>`;
}

/** @param {{card: import("../../state/lessons.js").Card}} props */
function Entry({ card }) {
  const way = kept.value[card.id];
  const isTest = card.kind !== "lesson";
  const state = way?.over ? "over" : way ? "begun" : "new";
  const { model, refused, num_questions: n } = card;
  const hasModel = modelFacts.value?.live !== false;
  const text = t(refused ? `lesson.refused.${hasModel ? "other" : "none"}` : `lesson.state.${state}`, { n, model });
  return html`<li><button class="path-card" id=${`path-${card.id}`} data-state=${state}
    disabled=${card.refused !== null} onClick=${() => learn(card.id)}>
    <span class="path-number num">${isTest ? "?" : card.number || ""}</span>
    <span class="path-title">${inLanguage(card.title)}</span>
    <span class="path-minutes num">${t("lesson.minutes", { n: card.minutes })}</span>
    <span class="path-state">${text}</span>
  </button></li>`;
}
