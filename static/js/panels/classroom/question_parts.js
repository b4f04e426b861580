// Parts of a question that several views show: its text, options, answers and clock.

import { useEffect, useState } from "../../../vendor/preact/hooks.js";
import { optionText, stemText } from "../../i18n/questions.js";
import { t } from "../../i18n/words.js";
import { html } from "../../kit/html.js";
import { lessonQuestion, secondsLeft } from "../../state/classroom.js";
import { currentLesson } from "../../state/lessons.js";
import { pollAnswerText } from "./histogram.js";

/** @param {{poll: import("../../core/wire.js").PollState}} props */
export function Clock({ poll }) {
  const [, tick] = useState(0);
  useEffect(() => {
    if (poll.left === null) return undefined;
    const timer = setInterval(() => tick(performance.now()), 250);
    return () => clearInterval(timer);
  }, [poll.left === null]);
  const seconds = secondsLeft();
  if (seconds === null) return null;
  const left = Math.ceil(seconds);
  const text = `${Math.floor(left / 60)}:${String(left % 60).padStart(2, "0")}`;
  return html`<span class="class-clock num" data-over=${left === 0}><span aria-hidden="true">${text}</span>
    <span class="visually-hidden" role="timer" aria-live="off">${t("class.clock", {
      n: Math.round(poll.seconds ?? 0),
    })}</span></span>`;
}

/**
 * @typedef {import("../../core/wire.js").PollState} Poll
 * @typedef {Poll["right"]} Answer
 */

/** The lesson question of a poll, if this page has it. @param {Poll} poll */
function itemOf(poll) {
  const now = currentLesson.value;
  const item = now && now.theater === poll.theater ? now.items.find(({ index }) => index === poll.item) : null;
  if (item?.kind === "ask") return item;
  const question = lessonQuestion.value;
  return question?.theater === poll.theater && question?.item.index === poll.item ? question.item : null;
}

/** @param {Poll} poll */
export function questionText(poll) {
  if (poll.kind !== "lesson") return poll.text;
  const item = itemOf(poll);
  return item ? stemText(item) : t("class.lesson_asks");
}

/** @param {Poll} poll @returns {string[]} */
export function optionTexts(poll) {
  if (poll.kind !== "lesson") return poll.options;
  return itemOf(poll)?.options.map(optionText) ?? [];
}

/** Formatter for answers. @param {Poll} poll @returns {(value: Answer) => string} */
export function answerText(poll) {
  if (poll.kind !== "lesson") return pollAnswerText(poll);
  const texts = optionTexts(poll);
  return (value) => texts[Number(value)] ?? String(value);
}
