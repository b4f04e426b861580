// Which lessons there are, and which of them can be opened now: a recorded one needs no model.

import { batch } from "../../vendor/signals/signals.js";
import { embeddedLesson, hasLesson, isEmbedded } from "../state/embedded.js";
import { cards } from "../state/lessons.js";
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
