// What a question says, of whatever kind: its text, its options, the words of an answer.

import { lessonAsks } from "../../state/classroom.js";
import { opened } from "../../state/lessons.js";
import { optionText, stemText } from "../../tell/questions.js";
import { t } from "../../tell/words.js";
import { ownText } from "./histogram.js";

/**
 * @typedef {import("../../core/wire.js").PollTold} Poll
 * @typedef {Poll["right"]} Answer
 */

/** A lesson's question, as this page has it. @param {Poll} poll */
function asked(poll) {
  const now = opened.value;
  const item = now && now.theater === poll.theater ? now.items.find(({ index }) => index === poll.item) : null;
  if (item?.kind === "ask") return item;
  const heard = lessonAsks.value;
  return heard?.theater === poll.theater && heard?.item.index === poll.item ? heard.item : null;
}

/** @param {Poll} poll */
export function questionText(poll) {
  if (poll.kind !== "lesson") return poll.text;
  const item = asked(poll);
  return item ? stemText(item) : t("class.lesson_asks");
}

/** @param {Poll} poll @returns {string[]} */
export function optionTexts(poll) {
  if (poll.kind !== "lesson") return poll.options;
  return asked(poll)?.options.map(optionText) ?? [];
}

/** The words of an answer. @param {Poll} poll @returns {(value: Answer) => string} */
export function answerText(poll) {
  if (poll.kind !== "lesson") return ownText(poll);
  const texts = optionTexts(poll);
  return (value) => texts[Number(value)] ?? String(value);
}
