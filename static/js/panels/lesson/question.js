// A question: answered before the run shows the outcome, with a second try, then explained beside the learner's answer.

import { useEffect } from "../../../vendor/preact/hooks.js";
import { answer, waiting } from "../../control/lesson.js";
import { jumpTo } from "../../control/playback.js";
import { letter, optionText, shownValues, stemText } from "../../i18n/questions.js";
import { hasText, t } from "../../i18n/words.js";
import { html } from "../../kit/html.js";
import { currentLesson, REVIEW } from "../../state/lessons.js";
import { own } from "../../state/run.js";
import { useScrollIntoView } from "./follow.js";
import { choose, chosen, isOpen, revisitQuestion, showsVerdict, turnTo } from "./prediction.js";

/** @import {AskItem, AskOption} from "../../core/wire.js" */

const OUTCOME_MS = 5000; // for which the previous question's outcome remains marked

/** Whether a class answers: on each participant's own sheet, until the presenter reveals the correct answer. */
const isInClass = () => currentLesson.value?.source === "class";

/** @param {{item: AskItem}} props */
export function Question({ item }) {
  const isUnanswered = isOpen(item);
  const isAnswerable = isUnanswered && !isInClass();
  const selected = chosen.value?.item === item.index ? chosen.value.option : null;
  const stem = stemText(item);
  /** @param {Event} event */
  const submit = (event) => {
    event.preventDefault();
    if (selected === null) return;
    chosen.value = null;
    answer(selected < 0 ? null : selected);
  };
  const reviewKey = currentLesson.value?.lesson === REVIEW ? "lesson.once_more" : "lesson.came_back";
  const markPlaces = () => turnTo(item);
  useEffect(() => {
    if (!isUnanswered) return undefined;
    const timer = setTimeout(markPlaces, OUTCOME_MS);
    return () => clearTimeout(timer);
  }, [isUnanswered]);
  return html`<form class="question" id=${`question-${item.index}`} data-over=${item.over} onSubmit=${submit}
    onFocusIn=${markPlaces}>
    <fieldset disabled=${!isAnswerable || waiting.value}>
      <legend>${item.again ? html`<small class="came-back">${t(reviewKey)}</small>` : null}${stem}</legend>
      ${item.options.map(
        (option, i) => html`<${AnswerOption} key=${i} item=${item} index=${i} option=${option} selected=${selected} />`,
      )}
      ${isInClass() ? null : html`<${Unsure} item=${item} selected=${selected} />`}
    </fieldset>
    ${
      isAnswerable
        ? html`<button class="command primary" id="lesson-answer" disabled=${selected === null || waiting.value}>${t(
            item.given.length ? "lesson.second" : "lesson.answer",
          )}</button>`
        : null
    }
    ${showsVerdict() ? html`<${Verdict} item=${item} />` : null}
  </form>`;
}

/** @param {{item: AskItem, selected: number | null}} props */
const Unsure = ({ item, selected }) => html`<label class="answer unsure" data-given=${item.given.includes(null)}>
  <input type="radio" name=${`answer-${item.index}`} checked=${selected === -1} onChange=${() => choose(item, -1)} />
  <span>${t("lesson.unsure")}</span>
</label>`;

/** @param {{item: AskItem, index: number, option: AskOption, selected: number | null}} props */
function AnswerOption({ item, index, option, selected }) {
  const given = item.given.includes(index);
  const right = item.over && showsVerdict() ? item.right === index : null;
  const isWrong = given && right !== true && showsVerdict() && (item.over || !isInClass());
  const radio = () => html`<input type="radio" name=${`answer-${item.index}`}
    checked=${selected === index || (selected === null && item.over && item.given.at(-1) === index)}
    disabled=${!item.over && given} onChange=${() => choose(item, index)} />`;
  return html`<${isInClass() ? "p" : "label"} class="answer" data-given=${given} data-right=${right}>
    ${isInClass() ? html`<i class="answer-letter" aria-hidden="true">${letter(index)}</i>` : radio()}
    <span class="num">${optionText(option)}</span>
    ${right ? html`<i class="answer-mark" aria-label=${t("lesson.right")}>✓</i>` : null}
    ${isWrong ? html`<i class="answer-mark wrong" aria-label=${t("lesson.yours")}>✗</i>` : null}
  <//>`;
}

/** Result of the answers. @param {{item: AskItem}} props */
function Verdict({ item }) {
  const news = useScrollIntoView(item.given.length, item.over);
  if (isInClass() ? !item.over : !item.given.length) return null;
  const why = item.whys.at(-1);
  const isRight = item.over && item.given.at(-1) === item.right;
  const key = why === "near" ? "question.near" : `question.${item.rule}.why.${why}`;
  const plain = `question.${item.rule}.${why}`;
  const text = why ? t(hasText(key) ? key : plain, shownValues(item.values)) : "";
  const { evidence } = item;
  const isShown = evidence !== null && evidence.record < own.numRecords.value;
  return html`<div class="verdict" role="status" data-right=${isRight} data-news="true" ref=${news} tabindex="-1">
    ${(item.given.at(-1) ?? null) === null || isRight ? null : html`<p>${text}</p>`}
    ${
      item.over
        ? html`<p>${isRight ? html`<b>${t("lesson.right")}</b> ` : null}${t(
            `question.${item.rule}.right`,
            shownValues(item.values),
          )}</p>`
        : html`<p>${t("lesson.try_again")}</p>`
    }
    ${
      evidence
        ? html`<p class="verdict-source"><code>${evidence.figure}</code> ${
            isShown
              ? html`<button type="button" class="lesson-link num"
              onClick=${() => revisit(item, evidence.record)}>${t("lesson.record", {
                i: evidence.record + 1,
              })}</button>`
              : t("lesson.record_comes", { i: evidence.record + 1 })
          }</p>`
        : null
    }
  </div>`;
}

/**
 * Show the deciding record, with the learner's answer marked in the picture.
 * @param {AskItem} item @param {number} record
 */
function revisit(item, record) {
  revisitQuestion(item);
  jumpTo(record);
}
