// Positions in a lesson: where to start or continue, and which actions run together with the next.

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

/** Return whether the run of a lesson has ended and must be recreated. @param {string} lesson */
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

const FIRST_QUESTION = 10_000; // index after the end of every lesson, which leads to the first unanswered question

const PREPARING = new Set(["submit", "restart"]); // actions that compute nothing

/** Return whether an action runs together with the next one, without text or question between. @param {Item} item */
export function isFollowed(item) {
  if (item?.kind !== "do" || !PREPARING.has(item.action.verb) || checkpoint.peek()?.kind !== "do") return false;
  const later = currentLesson.peek()?.items.filter(({ index }) => index > item.index) ?? [];
  return later.every(({ kind }, i) => kind === "show" || i === later.length - 1);
}

/** Wait until `condition()` is true, at most 5 s. @param {() => boolean} condition */
export async function until(condition) {
  for (let i = 0; i < 200 && !condition(); i++) await new Promise((resolve) => setTimeout(resolve, 25));
}

/** Return the stored position of a lesson, or its start with the earlier lessons' due questions. @param {string} id */
export function startOf(id) {
  const before = storedProgress.peek()[id];
  const isReview = id === REVIEW;
  if (!before || (isReview && before.over)) {
    const again = isReview ? toReview() : reviewsFor(id);
    return { theater: null, at: isReview ? FIRST_QUESTION : -1, answers: {}, again };
  }
  const { theater, at, answers, again = [] } = before;
  return { theater, at, answers, again };
}
