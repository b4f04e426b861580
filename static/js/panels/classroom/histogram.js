// Histogram of a class's answers: one bar per answer and round, the first round pale; the correct and the own answers
// are marked.

import { letter } from "../../i18n/questions.js";
import { hasText, t } from "../../i18n/words.js";
import { html } from "../../kit/html.js";

/**
 * @typedef {import("../../core/wire.js").PollState} Poll
 * @typedef {Poll["right"]} Answer
 */

/** @param {{poll: Poll, ownAnswers: Answer[], textOf: (value: Answer) => string}} props */
export function Histogram({ poll, ownAnswers, textOf }) {
  const rounds = poll.tallies;
  const rows = rowsOf(rounds);
  const hasLetters = poll.kind === "choice" || poll.kind === "lesson";
  const maxCount = Math.max(1, ...rows.flatMap(({ counts }) => counts));
  const totals = rounds.map((tally) => tally.answers.reduce((n, one) => n + one.count, tally.unsure + tally.others));
  return html`<table class="class-tally" data-rounds=${rounds.length}>
    <caption class="visually-hidden">${t("class.tally")}</caption>
    ${
      rounds.length > 1
        ? html`<thead><tr><th scope="col">${t("class.answer")}</th><th scope="col">${t("class.first")} → ${t(
            "class.second",
          )}</th></tr></thead>`
        : null
    }
    <tbody>${rows.map(({ value, counts, kind }) => {
      const isRight = kind === "answer" && poll.right !== null && isSame(value, poll.right);
      const isOwn =
        kind === "answer"
          ? ownAnswers.some((one) => isSame(one, value))
          : kind === "unsure" && ownAnswers.includes(null);
      return html`<tr key=${`${kind} ${value}`} data-right=${isRight} data-mine=${isOwn}>
        <th scope="row">${
          hasLetters && kind === "answer" ? html`<i class="class-letter">${letter(Number(value))}</i> ` : null
        }${kind === "answer" ? textOf(value) : t(`class.${kind}`)}
          ${isRight ? html` <i class="class-mark">✓ ${t("class.right")}</i>` : null}
          ${isOwn ? html` <i class="class-mark mine">${t("class.yours")}</i>` : null}</th>
        <td>${counts.map(
          (count, round) => html`<span class="class-bar-row" key=${round} data-round=${round}>
          <i class="class-bar-fill" style=${{ "--share": count / maxCount }}></i>
          <span class="num">${t("class.of", { n: count, all: totals[round] })}</span></span>`,
        )}</td></tr>`;
    })}</tbody>
  </table>`;
}

/** @param {Answer} a @param {Answer} b */
const isSame = (a, b) =>
  a === b || (a !== null && b !== null && String(a).toLowerCase().trim() === String(b).toLowerCase().trim());

/**
 * Return a row for each distinct answer of either round, with its counts.
 * @param {Poll["tallies"]} rounds
 * @returns {{value: Answer, counts: number[], kind: "answer" | "unsure" | "others"}[]}
 */
function rowsOf(rounds) {
  /** @type {Map<Answer, number[]>} */
  const countsByAnswer = new Map();
  rounds.forEach((tally, round) => {
    for (const { value, count } of tally.answers) {
      const counts = countsByAnswer.get(value) ?? rounds.map(() => 0);
      counts[round] = count;
      countsByAnswer.set(value, counts);
    }
  });
  /** @type {{value: Answer, counts: number[], kind: "answer" | "unsure" | "others"}[]} */
  const rows = [...countsByAnswer].map(([value, counts]) => ({ value, counts, kind: "answer" }));
  for (const kind of /** @type {const} */ (["unsure", "others"]))
    if (rounds.some((tally) => tally[kind]))
      rows.push({ value: null, counts: rounds.map((tally) => tally[kind]), kind });
  return rows;
}

/**
 * Text of an answer to a question that belongs to no lesson.
 * @type {(poll: Poll) => (value: Answer) => string}
 */
export const pollAnswerText = (poll) => (value) =>
  poll.kind === "choice" && typeof value === "number" ? (poll.options[value] ?? "") : valueText(poll.kind, value);

/** @param {Poll["kind"]} kind @param {Answer} value */
function valueText(kind, value) {
  const key = `class.value.${kind}`;
  return hasText(key) ? t(key, { value: String(value) }) : String(value);
}
