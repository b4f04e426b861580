// The way through a lesson: where one begins or goes on, and which actions are taken with the one after them.

import { barrier, kept, opened, owedTo, REVIEW, toReview } from "../state/lessons.js";

/** @typedef {import("../state/lessons.js").Item | null} Item */

const TO_THE_QUESTION = 10_000; // an item past every end: the first question that has no answer is where one stops

const READY = new Set(["submit", "restart"]); // actions that compute nothing

/** Whether an action is the first half of another: nothing is said or asked between. @param {Item} item */
export function isFollowed(item) {
  if (item?.kind !== "do" || !READY.has(item.action.verb) || barrier.peek()?.kind !== "do") return false;
  const since = opened.peek()?.items.filter(({ index }) => index > item.index) ?? [];
  return since.every(({ kind }, i) => kind === "show" || i === since.length - 1);
}

/** Until something that is on its way has arrived, or long enough. @param {() => boolean} holds */
export async function here(holds) {
  for (let i = 0; i < 200 && !holds(); i++) await new Promise((resolve) => setTimeout(resolve, 25));
}

/**
 * Where one was, or where one begins: with questions of earlier lessons, or with them alone.
 *
 * @param {string} wanted
 */
export function wayInto(wanted) {
  const before = kept.peek()[wanted];
  const isReview = wanted === REVIEW;
  if (!before || (isReview && before.over)) {
    const again = isReview ? toReview() : owedTo(wanted);
    return { theater: null, at: isReview ? TO_THE_QUESTION : -1, answers: {}, again };
  }
  const { theater, at, answers, again = [] } = before;
  return { theater, at, answers, again };
}
