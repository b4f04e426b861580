// Histogram of a class's answers: one bar per answer, the first round pale beside the second; correct and own answers
// are marked.

import { letter } from "../../i18n/questions.js";
import { hasText, t } from "../../i18n/words.js";
import { html } from "../../kit/html.js";

/**
 * @typedef {import("../../core/wire.js").PollState} Poll
 * @typedef {Poll["right"]} Answer
 */

/** @param {{poll: Poll, mine: Answer[], textOf: (value: Answer) => string}} props */
export function Histogram({ poll, mine, textOf }) {
  const rounds = poll.tallies;
  const rows = rowsOf(rounds);
  const hasLetters = poll.kind === "choice" || poll.kind === "lesson";
  const most = Math.max(1, ...rows.flatMap(({ counts }) => counts));
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
      const isRight = kind === "answer" && poll.right !== null && same(value, poll.right);
      const isMine =
        kind === "answer" ? mine.some((one) => same(one, value)) : kind === "unsure" && mine.includes(null);
      return html`<tr key=${`${kind} ${value}`} data-right=${isRight} data-mine=${isMine}>
        <th scope="row">${
          hasLetters && kind === "answer" ? html`<i class="class-letter">${letter(Number(value))}</i> ` : null
        }${kind === "answer" ? textOf(value) : t(`class.${kind}`)}
          ${isRight ? html` <i class="class-mark">✓ ${t("class.right")}</i>` : null}
          ${isMine ? html` <i class="class-mark mine">${t("class.yours")}</i>` : null}</th>
        <td>${counts.map(
          (count, round) => html`<span class="class-bar-row" key=${round} data-round=${round}>
          <i class="class-bar-fill" style=${{ "--share": count / most }}></i>
          <span class="num">${t("class.of", { n: count, all: totals[round] })}</span></span>`,
        )}</td></tr>`;
    })}</tbody>
  </table>`;
}

/** @param {Answer} a @param {Answer} b */
const same = (a, b) =>
  a === b || (a !== null && b !== null && String(a).toLowerCase().trim() === String(b).toLowerCase().trim());

/**
 * Return each answer of either round once, options in their order.
 * @param {Poll["tallies"]} rounds
 * @returns {{value: Answer, counts: number[], kind: "answer" | "unsure" | "others"}[]}
 */
function rowsOf(rounds) {
  /** @type {Map<Answer, number[]>} */
  const found = new Map();
  rounds.forEach((tally, round) => {
    for (const { value, count } of tally.answers) {
      const counts = found.get(value) ?? rounds.map(() => 0);
      counts[round] = count;
      found.set(value, counts);
    }
  });
  /** @type {{value: Answer, counts: number[], kind: "answer" | "unsure" | "others"}[]} */
  const rows = [...found].map(([value, counts]) => ({ value, counts, kind: "answer" }));
  for (const kind of /** @type {const} */ (["unsure", "others"]))
    if (rounds.some((tally) => tally[kind]))
      rows.push({ value: null, counts: rounds.map((tally) => tally[kind]), kind });
  return rows;
}

/**
 * Text of an answer to a question that belongs to no lesson.
 * @param {Poll} poll
 * @returns {(value: Answer) => string}
 */
export const ownText = (poll) => (value) =>
  poll.kind === "choice" && typeof value === "number" ? (poll.options[value] ?? "") : wordOf(poll.kind, value);

/** @param {Poll["kind"]} kind @param {Answer} value */
function wordOf(kind, value) {
  const key = `class.value.${kind}`;
  return hasText(key) ? t(key, { value: String(value) }) : String(value);
}
