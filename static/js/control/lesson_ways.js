// The way through a lesson: where one begins or goes on, and which actions are taken with the one after them.

import { batch } from "../../vendor/signals/signals.js";
import { embeddedLesson, hasLesson, isEmbedded } from "../state/embedded.js";
import { barrier, cards, kept, opened, owedTo, REVIEW, toReview } from "../state/lessons.js";
import { settings } from "../state/settings.js";
import { isSite } from "../state/site.js";
import * as store from "../state/store.js";

/** Whether this page has lessons in files, its own or a site's. */
export const hasFiles = isEmbedded || isSite;

/** @param {string} lesson */
export const isRecorded = (lesson) => Boolean(cards.value?.find(({ id }) => id === lesson)?.recorded);

/** Whether the lesson can be opened now. @param {string} lesson */
export function canOpen(lesson) {
  if (!isRecorded(lesson)) return store.connection.value === "live";
  return hasFiles || store.connection.value === "replay" || store.connection.value === "live";
}

/** Whether the run of a lesson is gone, which is made again then. @param {string} lesson */
export const isLost = (lesson) => !isRecorded(lesson) && !hasFiles && store.connection.value === "gone";

let asking = false;

/** Ask which lessons there are. */
export async function loadCards() {
  if (asking) return;
  asking = true;
  try {
    if (isEmbedded) return await takeEmbedded();
    const answer = await fetch("api/lessons");
    cards.value = answer.ok ? (await answer.json()).lessons : [];
  } catch {
    cards.value = [];
  }
}

/** A lesson in a file is what that file is opened for. */
async function takeEmbedded() {
  const card = hasLesson ? (await embeddedLesson()).card : null;
  batch(() => {
    cards.value = card ? [card] : [];
    settings.lesson.value ??= card?.id ?? null;
  });
}

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
