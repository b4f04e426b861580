// State of the open lesson, the learner's progress, and its storage on this device.

import { computed, signal } from "../../vendor/signals/signals.js";
import { settings } from "./settings.js";

/** @import {Signal} from "../../vendor/signals/signals.js" */
/** @import {Card, Earlier, AskItem, DoItem, MendItem, SandboxItem, ShowItem, TextItem} from "../core/wire.js" */
/** @import {WorkItem} from "../core/wire.js" */

/**
 * @typedef {TextItem | ShowItem | DoItem | AskItem | WorkItem | MendItem | SandboxItem} Item
 * @typedef {import("../core/wire.js").LessonAnswerMessage["given"]} Given an option, a list of operations; null: not
 *   sure
 *
 * @typedef {{
 *   lesson: string, kind: Card["kind"], language: string, title: string, minutes: number, theater: string,
 *   items: Item[], source: "live" | "server" | "file" | "class",
 *   progress: import("../core/wire.js").Progress, changes: Record<string, number>, again: Earlier[],
 * }} Opened `source`: origin of the run; `changes`: settings changed by the learner, under which progress is not
 * stored; `again`: questions of earlier lessons that are repeated on this lesson's run
 * @typedef {{
 *   at: number, answers: Record<string, Given[]>, over: boolean, theater: string | null,
 *   results: Record<string, Result>, missed?: number[], recalled?: string[], again?: Earlier[],
 * }} StoredLesson `results`: result of the first attempt, by rule of the questions; `missed`: items not answered
 * correctly; `recalled`: questions of earlier lessons that were asked again
 * @typedef {"right" | "wrong" | "unsure"} Result
 */

/** @type {Signal<Opened | null>} */
export const currentLesson = signal(null);

/**
 * Return the state of a lesson from the server's description.
 * @param {import("../core/wire.js").LessonOpened} opened
 * @param {Pick<Opened, "language" | "source" | "changes" | "again">} own fields that the page determines
 * @returns {Opened}
 */
export function openedAs({ lesson, kind, title, minutes, theater, progress, items }, own) {
  return { ...own, lesson, kind, title, minutes, theater, progress, items: /** @type {Item[]} */ (items) };
}

/** Id of the section "pages.yours", in which the learner allocates blocks, as a lesson of its own. */
export const ALLOCATOR = "pages.yours";

/** All lessons; null until they are fetched. @type {Signal<Card[] | null>} */
export const cards = signal(null);

/**
 * Item that the learner has to complete next: an action, a question or the sandbox. Null if the lesson is over or none
 * is open.
 */
export const checkpoint = computed(() => {
  const now = currentLesson.value;
  return now?.items.find((item) => item.index === now.progress.at) ?? null;
});

/**
 * Return whether the open lesson still has to ask a question that a figure answers. The figure is hidden until then.
 * @param {string} rule identifies the questions
 */
export const isOpenQuestion = (rule) => {
  const now = currentLesson.value;
  const isLessonRun = now?.source === "server" || now?.source === "file" || settings.theater.value === now?.theater;
  return now !== null && isLessonRun && now.progress.asks.includes(rule);
};

/** Return whether an item belongs to an optional section. @param {Pick<Item, "section">} item @param {Opened} lesson */
const isOptional = ({ section }, { progress }) => section >= progress.num_sections - progress.num_optional;

/** Race that the learner has started and that is still shown, or null. Later actions apply to the lesson's own run. */
export const lessonRace = computed(() => {
  const last = currentLesson.value?.items
    .filter((item) => item.kind === "show" || (item.kind === "do" && item.moment))
    .at(-1);
  return last?.kind === "do" ? last.race : null;
});

/** Whether the learner has just reached the race. Its lanes start as soon as they are visible. */
export const raceIsDue = signal(false);

/**
 * Part of the page to show at the learner's position, and its view settings.
 * @type {import("../../vendor/signals/signals.js").ReadonlySignal<{part: string, view: Record<string, string>} | null>}
 */
export const shownPart = computed(() => {
  const race = lessonRace.value;
  if (race) return { part: "race", view: { lanes: race.lanes } };
  const shows = currentLesson.value?.items.filter((item) => item.kind === "show") ?? [];
  return /** @type {ShowItem | undefined} */ (shows.at(-1)) ?? null;
});

const MEMORY_KEY = "kvtheater.lessons";

/** Stored progress and answers, by lesson. @type {Signal<Record<string, StoredLesson>>} */
export const storedProgress = signal({});

/** @param {Pick<Storage, "getItem"> | null} storage */
export function readStoredProgress(storage) {
  try {
    const found = JSON.parse(storage?.getItem(MEMORY_KEY) ?? "{}");
    if (found && typeof found === "object") storedProgress.value = found;
  } catch {
    // unreadable storage counts as empty
  }
}

/** Store the progress of the open lesson. @param {Pick<Storage, "setItem"> | null} storage */
export function storeProgress(storage) {
  const now = currentLesson.peek();
  if (!now || Object.keys(now.changes).length) return;
  /** @type {StoredLesson["answers"]} */
  const answers = {};
  /** @type {StoredLesson["results"]} */
  const results = {};
  /** @type {number[]} */
  const missed = [];
  /** @type {string[]} */
  const recalled = [];
  for (const item of now.items) {
    if (item.kind === "work") answers[item.index] = item.given.map((list) => list?.moves ?? null);
    if (item.kind === "mend") answers[item.index] = item.given.map((attempt) => attempt && { moves: attempt.moves });
    if (item.kind !== "ask" || !item.given.length) continue;
    answers[item.index] = item.given;
    if (!item.over) continue;
    if (item.again) recalled.push(item.again);
    else if ((results[item.rule] = resultOf(item)) !== "right") missed.push(item.index - recalled.length);
  }
  const before = storedProgress.peek()[now.lesson];
  const last = now.items.at(-1);
  const isComplete = last?.kind === "sandbox" || (last !== undefined && isOptional(last, now));
  const isReview = now.lesson === REVIEW; // recalled questions accumulate over reviews
  const over = now.progress.over || (!isReview && (isComplete || Boolean(before?.over)));
  // a question that a changed lesson no longer contains counts as asked
  if (isReview && over) recalled.push(...now.again.map(({ lesson, item }) => `${lesson}/${item}`));
  storedProgress.value = {
    ...storedProgress.peek(),
    [now.lesson]: {
      at: now.progress.at,
      answers,
      over,
      theater: now.theater,
      results,
      missed,
      recalled: isReview ? [...new Set([...(before?.recalled ?? []), ...recalled])] : recalled,
      again: now.again,
    },
  };
  try {
    storage?.setItem(MEMORY_KEY, JSON.stringify(storedProgress.peek()));
  } catch {
    // storage may be refused in a private window; progress is then lost
  }
}

/** Id of the lesson that reviews questions on the run of their lesson. */
export const REVIEW = "again";
const MAX_REVIEWED = 8;

/**
 * Questions answered wrong that no later lesson has repeated, although the learner has finished all lessons. Covers
 * only lessons that a model can play.
 */
export const dueReviews = computed(() => {
  const all = (cards.value ?? []).filter(({ kind }) => kind === "lesson");
  const progress = storedProgress.value;
  const asked = new Set(Object.values(progress).flatMap(({ recalled }) => recalled ?? []));
  return all
    .filter(({ recorded, refused }) => !recorded && !refused)
    .filter(({ number }) => all.every((card) => card.number < number || progress[card.id]?.over))
    .flatMap(({ id: lesson }) => (progress[lesson]?.missed ?? []).map((item) => ({ lesson, item })))
    .filter(({ lesson, item }) => !asked.has(`${lesson}/${item}`));
});

/** Return the due questions of the first lesson that has any, to review them on one run. @returns {Earlier[]} */
export function toReview() {
  const all = dueReviews.peek();
  return all.filter(({ lesson }) => lesson === all[0].lesson).slice(0, MAX_REVIEWED);
}

const MAX_EARLIER = 4; // questions per lesson
const MIN_DISTANCE = 2; // lessons

/**
 * Return the questions due in a lesson: answered wrong at least MIN_DISTANCE lessons before, and not repeated.
 * @param {string} id
 * @returns {Earlier[]}
 */
export function reviewsFor(id) {
  const all = cards.peek() ?? [];
  const progress = storedProgress.peek();
  const number = all.find((card) => card.id === id)?.number ?? 0;
  const asked = new Set(
    Object.keys(progress).flatMap((lesson) => (lesson === id ? [] : (progress[lesson].recalled ?? []))),
  );
  return all
    .filter((card) => card.kind === "lesson" && card.number <= number - MIN_DISTANCE)
    .flatMap(({ id: lesson }) => (progress[lesson]?.missed ?? []).map((item) => ({ lesson, item })))
    .filter(({ lesson, item }) => !asked.has(`${lesson}/${item}`))
    .slice(-MAX_EARLIER);
}

/** Return the result of the first attempt. @param {AskItem} item @returns {Result} */
const resultOf = ({ given, right }) => (given[0] === null ? "unsure" : given[0] === right ? "right" : "wrong");

const PART_MARK = "."; // in the id of a section as a lesson, as in app/lessons/excerpt.py

/** Return the lesson after `now`, for a section the lesson itself; null: the list of lessons. @param {Opened} now */
export function lessonAfter(now) {
  if (now.kind !== "lesson" || now.lesson === REVIEW) return null;
  const [lessonId, part] = now.lesson.split(PART_MARK);
  const all = cards.value ?? [];
  const at = all.findIndex(({ id }) => id === lessonId);
  const next = at < 0 ? undefined : all[part ? at : at + 1];
  return next && next.refused === null ? next : null;
}

/** Discard the stored progress of a lesson. @param {string} id */
export function discardProgress(id) {
  const { [id]: _, ...rest } = storedProgress.peek();
  storedProgress.value = rest;
}
