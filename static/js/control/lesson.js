// Lesson control: opening at the stored position, continuing, answering, and display of the run.

import { batch, effect, signal } from "../../vendor/signals/signals.js";
import { language } from "../i18n/language.js";
import { addMoreWords, t } from "../i18n/words.js";
import { STOPPED } from "../net/errors.js";
import { liveCourse } from "../net/live_course.js";
import { recordedCourse } from "../net/recorded_course.js";
import { session } from "../net/session.js";
import { attends, enters } from "../state/classroom.js";
import {
  cards,
  checkpoint,
  currentLesson,
  discardProgress,
  lessonRace,
  openedAs,
  raceIsDue,
  readStoredProgress,
  shownPart,
  storeProgress,
} from "../state/lessons.js";
import { own, ownIsShown } from "../state/run.js";
import { openView, parseQuery, settings } from "../state/settings.js";
import * as store from "../state/store.js";
import { canOpen, hasFiles, isFollowed, isLost, isRecorded, loadCards, startOf, until } from "./lesson_navigation.js";
import { play, stop } from "./playback.js";
import { takeOver, viewOnlyPlayer } from "./player.js";

/** @import {LessonState} from "../core/wire.js" */
/** @import {Given} from "../state/lessons.js" */

const MAX_SECONDS = 8; // of playback of one action's records

/** Return a speed at which `count` steps take at most MAX_SECONDS. @param {number} count */
const speedFor = (count) => Math.max(2, Math.ceil(count / MAX_SECONDS));

/** Return the last action that was carried out. */
const lastDone = () => currentLesson.peek()?.items.findLast((item) => item.kind === "do" && item.moment);

/**
 * Play the records that an action added, once they have arrived.
 * @param {number} before number of records before the action
 */
async function playAdded(before) {
  const done = lastDone();
  if (done?.kind !== "do" || !done.moment) return;
  const { moment, race } = done;
  if (race && race === lessonRace.peek()) {
    settings.speed.value = speedFor(Number(race.sampling.max_tokens) || 0);
    raceIsDue.value = true;
    return;
  }
  for (let i = 0; i < 200 && own.numRecords.peek() < moment.records; i++)
    await new Promise((resolve) => setTimeout(resolve, 25));
  const count = moment.records - before;
  if (count > 1 && before <= moment.records) {
    settings.speed.value = speedFor(count);
    play();
  } else store.backToLive();
}

const RETRY_MS = 500; // between checks whether the server is back

/** Whether a request of the lesson is pending. */
export const waiting = signal(false);

/** @type {Pick<Storage, "getItem" | "setItem"> | null} */
let storage = null;
/** @type {(() => void) | null} returns control of the page to the learner */
let release = null;
/** @type {import("../net/live_course.js").Course} source of the open lesson's questions and run */
let course = liveCourse;

/**
 * Open the lesson of the address whenever it changes, in the page's language.
 * @param {Pick<Storage, "getItem" | "setItem"> | null} memory
 */
export function followLessons(memory) {
  storage = memory;
  readStoredProgress(memory);
  effect(() => {
    const [id, code, all] = [settings.lesson.value, language.value, cards.value];
    if (attends.value || enters.value) return; // the class determines the lesson
    if (all === null && (id || settings.viewMode.value === "lesson")) loadCards();
    if (id && code) openRequested(isLost(id), canOpen(id));
  });
  effect(() => {
    if (settings.lesson.value === null && currentLesson.peek() && !attends.peek()) close();
  });
}

/**
 * Open the requested lesson unless it is open. If another is being opened, `begin` checks again.
 * @param {boolean} lost whether its run is gone
 * @param {boolean} can whether the lesson's requirements are available
 */
function openRequested(lost, can) {
  const [id, now] = [settings.lesson.peek(), currentLesson.peek()];
  if (!id || cards.peek() === null || waiting.peek()) return;
  const isOther = now?.lesson !== id || now.language !== language.peek();
  if (lost || (isOther && can)) queueMicrotask(() => open(id));
}

/** Go to a lesson, or to the list of lessons (null). @param {string | null} id */
export const openLesson = (id) => openView("lesson", { lesson: id });

/** Restart the open lesson. */
export function restartLesson() {
  const now = currentLesson.peek();
  if (!now) return;
  discardProgress(now.lesson);
  currentLesson.value = null;
  open(now.lesson);
}

/** Carry out the next item; if it is an action that only prepares the run, also the one after it. */
export async function continueLesson() {
  const now = currentLesson.peek();
  if (!now || waiting.peek()) return;
  const last = lastDone()?.index;
  let before = own.numRecords.peek();
  stop();
  if (before && ownIsShown.peek()) store.goTo(before - 1);
  const done = await attempt(async () => {
    for (let isReady = false; !isReady; ) {
      const [item, log] = [checkpoint.peek(), own.log.peek()];
      applyState(await course.go(now.theater, currentLesson.peek()?.progress.at ?? -1));
      isReady = !isFollowed(item);
      if (isReady || item?.kind !== "do" || item.action.verb !== "restart") continue;
      await until(() => own.log.peek() !== log);
      before = 0;
    }
    return true;
  });
  if (done && lastDone()?.index !== last) await playAdded(before);
  else if (!done) store.backToLive();
}

/** Answer the current question with an option, or a list of operations or moves; null: unsure. @param {Given} given */
export async function answer(given) {
  const now = currentLesson.peek();
  if (!now || waiting.peek()) return;
  const state = await attempt(() => course.answer(now.theater, now.progress.at, given));
  if (state) applyState(state);
}

/**
 * Replay the lesson's run up to the learner's position with changed settings; {} restores its own.
 * @param {Record<string, number>} changes
 */
export async function change(changes) {
  const now = currentLesson.peek();
  if (!now || waiting.peek()) return;
  /** @type {Record<string, null[]>} */
  const answers = {};
  for (const item of now.items)
    if ((item.kind === "ask" || item.kind === "work" || item.kind === "mend") && item.over)
      answers[item.index] = [null];
  const isOriginal = !Object.keys(changes).length;
  if (isOriginal) await open(now.lesson);
  else await begin({ lesson: now.lesson, theater: null, at: now.progress.at, answers, changes, again: now.again });
}

/** Open a lesson at the stored position. A lost run is recreated as soon as the server is back. @param {string} id */
async function open(id) {
  course = isRecorded(id) ? recordedCourse(!hasFiles) : liveCourse;
  const leaving = session.problem.peek()?.key === STOPPED ? session.client?.id : null; // a stopping server's client
  while (session.client && (!session.client.connected || session.client.id === leaving)) {
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    if (settings.lesson.peek() !== id) return;
  }
  const isOpen = await begin({ lesson: id, changes: {}, ...startOf(id) });
  if (!isOpen && settings.lesson.peek() === id) settings.lesson.value = null;
}

/**
 * @param {{
 *   lesson: string, theater: string | null, at: number, answers: Record<string, Given[]>,
 *   changes: Record<string, number>, again: import("../core/wire.js").Earlier[],
 * }} request
 */
async function begin(request) {
  const code = language.peek();
  const isRequested = () => settings.lesson.peek() === request.lesson && language.peek() === code;
  const opened = await attempt(() => course.open({ language: code, ...request }, isRequested));
  if (!isRequested()) {
    openRequested(false, true); // another lesson or none has been chosen
    return true;
  }
  if (!opened) return false;
  addMoreWords(code, opened.words);
  const { changes, again } = request;
  batch(() => {
    currentLesson.value = openedAs(opened, { language: code, source: course.source, changes, again });
    release ??= takeOver(lessonPlayer);
    applyView();
  });
  storeProgress(storage);
  await course.follow(opened.theater);
  updateControl();
  return true;
}

/** @param {LessonState} state */
function applyState(state) {
  const now = currentLesson.peek();
  if (!now || now.theater !== state.theater) return;
  const items = [
    ...now.items.filter((item) => item.index < state.first),
    .../** @type {import("../state/lessons.js").Item[]} */ (state.items),
  ];
  batch(() => {
    currentLesson.value = { ...now, items, progress: state.progress };
    applyView();
  });
  storeProgress(storage);
  updateControl();
}

/** Apply the lesson's view. */
function applyView() {
  const show = shownPart.peek();
  if (!show) return;
  const values = parseQuery(new URLSearchParams(show.view).toString());
  const all = /** @type {Record<string, import("../../vendor/signals/signals.js").Signal<unknown>>} */ (settings);
  for (const [name, value] of Object.entries(values)) all[name].value = value;
}

/** Take control of the page while the lesson drives the run, and return it in the sandbox and at the end. */
function updateControl() {
  const now = currentLesson.peek();
  if (!now) return;
  if (!now.progress.over && checkpoint.peek()?.kind !== "sandbox") return void (release ??= takeOver(lessonPlayer));
  release?.();
  release = null;
}

function close() {
  release?.();
  release = null;
  currentLesson.value = null;
}

/**
 * Return a course's response. If it refuses, display why and return null.
 * @template T
 * @param {() => Promise<T>} request
 * @returns {Promise<T | null>}
 */
async function attempt(request) {
  const { client } = session;
  waiting.value = true;
  try {
    return await request();
  } catch (error) {
    session.reportFailure(error, client);
    return null;
  } finally {
    waiting.value = false;
  }
}

async function step() {
  if (currentLesson.peek()?.items.at(-1)?.kind !== "do") return false;
  await continueLesson();
  return true;
}

/**
 * Player while a lesson drives its run: the transport moves through existing records, and "next" continues the lesson.
 * @type {import("./player.js").Player}
 */
const lessonPlayer = {
  ...viewOnlyPlayer,
  live: () => store.connection.value === "live",
  step,
  run: step,
  sentence: () => (store.viewIndex.value < 0 && !store.numRecords.value ? t("sentence.start.lesson") : null),
};
