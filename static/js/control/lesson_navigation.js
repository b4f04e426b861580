// Positions in a lesson: where to start or continue, and which actions run together with the next one.

import { batch } from "../../vendor/signals/signals.js";
import { cards, checkpoint, currentLesson, REVIEW, reviewsFor, storedProgress, toReview } from "../state/lessons.js";
import { settings } from "../state/settings.js";
import * as store from "../state/store.js";
import { embeddedLesson, hasLesson, isEmbedded, isSite } from "../state/without_server.js";

/** Whether this page has lessons as files, embedded or on a site. */
export const hasFiles = isEmbedded || isSite;

/** @param {string} lesson */
export const isRecorded = (lesson) => Boolean(cards.value?.find(({ id }) => id === lesson)?.recorded);

/** Return whether the lesson can be opened now. @param {string} lesson */
export function canOpen(lesson) {
  if (!isRecorded(lesson)) return store.connection.value === "live";
  return hasFiles || store.connection.value === "replay" || store.connection.value === "live";
}

/** Return whether the run of a lesson is gone and has to be recreated. @param {string} lesson */
export const isLost = (lesson) => !isRecorded(lesson) && !hasFiles && store.connection.value === "gone";

let isBusy = false;

/** Fetch the list of lessons. */
export async function loadCards() {
  if (isBusy) return;
  isBusy = true;
  try {
    if (isEmbedded) return await takeEmbedded();
    const answer = await fetch("api/lessons");
    cards.value = answer.ok ? (await answer.json()).lessons : [];
  } catch {
    cards.value = [];
  }
}

/** Open the lesson of a single-file page. */
async function takeEmbedded() {
  const card = hasLesson ? (await embeddedLesson()).card : null;
  batch(() => {
    cards.value = card ? [card] : [];
    settings.lesson.value ??= card?.id ?? null;
  });
}

/** @typedef {import("../state/lessons.js").Item | null} Item */

const TO_THE_QUESTION = 10_000; // index past every end: the learner stops at the first unanswered question

const READY = new Set(["submit", "restart"]); // actions that compute nothing

/** Return whether an action runs together with the next one, with no text or question between. @param {Item} item */
export function isFollowed(item) {
  if (item?.kind !== "do" || !READY.has(item.action.verb) || checkpoint.peek()?.kind !== "do") return false;
  const since = currentLesson.peek()?.items.filter(({ index }) => index > item.index) ?? [];
  return since.every(({ kind }, i) => kind === "show" || i === since.length - 1);
}

/** Wait until `holds()` is true, with a limit. @param {() => boolean} holds */
export async function until(holds) {
  for (let i = 0; i < 200 && !holds(); i++) await new Promise((resolve) => setTimeout(resolve, 25));
}

/**
 * Return the stored position, or the start: with due questions of earlier lessons, or only those.
 * @param {string} wanted
 */
export function startOf(wanted) {
  const before = storedProgress.peek()[wanted];
  const isReview = wanted === REVIEW;
  if (!before || (isReview && before.over)) {
    const again = isReview ? toReview() : reviewsFor(wanted);
    return { theater: null, at: isReview ? TO_THE_QUESTION : -1, answers: {}, again };
  }
  const { theater, at, answers, again = [] } = before;
  return { theater, at, answers, again };
}
