// The lesson that is open, as far as the learner has come, and what this device remembers of the way.

import { computed, signal } from "../../vendor/signals/signals.js";
import { settings } from "./settings.js";

/**
 * @template T
 * @typedef {import("../../vendor/signals/signals.js").Signal<T>} Signal
 */
/**
 * @typedef {import("../core/wire.js").ToldText} ToldText
 * @typedef {import("../core/wire.js").ToldShow} ToldShow
 * @typedef {import("../core/wire.js").ToldDo} ToldDo
 * @typedef {import("../core/wire.js").ToldAsk} ToldAsk
 * @typedef {import("../core/wire.js").ToldSandbox} ToldSandbox
 * @typedef {import("../core/wire.js").ToldWork} ToldWork
 * @typedef {import("../core/wire.js").ToldMend} ToldMend
 * @typedef {ToldText | ToldShow | ToldDo | ToldAsk | ToldWork | ToldMend | ToldSandbox} Item
 * @typedef {import("../core/wire.js").LessonAnswerMessage["given"]} Given an option, a list of operations; null: not
 *   sure
 * @typedef {import("../core/wire.js").Card} Card
 *
 * @typedef {{
 *   lesson: string, kind: Card["kind"], language: string, title: string, minutes: number, theater: string,
 *   items: Item[], source: "live" | "server" | "file" | "class",
 *   progress: import("../core/wire.js").Progress, changes: Record<string, number>, again: Earlier[],
 * }} Opened `source`: whose run it is; `changes`: settings that the learner has changed; what is learned under them is
 *   not remembered; `again`: questions of earlier lessons that come back where this lesson's run decides them
 * @typedef {{
 *   at: number, answers: Record<string, Given[]>, over: boolean, theater: string | null,
 *   results: Record<string, Result>, missed?: number[], recalled?: string[], again?: Earlier[],
 * }} Kept `results`: by rule of the questions, how the first try was; `missed`: items of those that were not right;
 *   `recalled`: earlier lessons' questions that came back
 * @typedef {import("../core/wire.js").Earlier} Earlier
 * @typedef {"right" | "wrong" | "unsure"} Result
 */

/** @type {Signal<Opened | null>} */
export const opened = signal(null);

/**
 * A lesson as it was told.
 *
 * @param {import("../core/wire.js").LessonOpened} told
 * @param {Pick<Opened, "language" | "source" | "changes" | "again">} own what this page knows of it
 * @returns {Opened}
 */
export function openedAs({ lesson, kind, title, minutes, theater, progress, items }, own) {
  return { ...own, lesson, kind, title, minutes, theater, progress, items: /** @type {Item[]} */ (items) };
}

/** The lessons that there are; null before they were asked for. @type {Signal<Card[] | null>} */
export const cards = signal(null);

/** What the learner stands before: an action, a question, the sandbox; null: the lesson is over, or none is open. */
export const barrier = computed(() => {
  const now = opened.value;
  return now?.items.find((item) => item.index === now.progress.at) ?? null;
});

/**
 * Whether the open lesson has still to ask what a figure says: the figure keeps it back until it was answered.
 *
 * @param {string} rule of the questions
 */
export const isAsked = (rule) => {
  const now = opened.value;
  const isItsRun = now?.source === "server" || now?.source === "file" || settings.theater.value === now?.theater;
  return now !== null && isItsRun && now.progress.asks.includes(rule);
};

/** Whether an item lies in what is for who has time. @param {Pick<Item, "section">} item @param {Opened} lesson */
export const isOptional = ({ section }, { progress }) => section >= progress.num_sections - progress.num_optional;

/**
 * The race that the learner has let run and that is still what is looked at; null: something else is. Whatever is done
 * afterwards is done to the lesson's own run.
 */
export const lessonRace = computed(() => {
  const last = opened.value?.items.filter((item) => item.kind === "show" || (item.kind === "do" && item.moment)).at(-1);
  return last?.kind === "do" ? last.race : null;
});

/** Whether the learner has just gone on to it: its lanes begin as soon as they are in sight. */
export const raceIsDue = signal(false);

/**
 * What is to be looked at where the learner stands, and how.
 *
 * @type {import("../../vendor/signals/signals.js").ReadonlySignal<{part: string, view: Record<string, string>} | null>}
 */
export const shownPart = computed(() => {
  const race = lessonRace.value;
  if (race) return { part: "race", view: { lanes: race.lanes } };
  const shows = opened.value?.items.filter((item) => item.kind === "show") ?? [];
  return /** @type {ToldShow | undefined} */ (shows.at(-1)) ?? null;
});

const MEMORY_KEY = "kvtheater.lessons";

/** By lesson: how far one had come, and what one had answered. @type {Signal<Record<string, Kept>>} */
export const kept = signal({});

/** @param {Pick<Storage, "getItem"> | null} storage */
export function readKept(storage) {
  try {
    const found = JSON.parse(storage?.getItem(MEMORY_KEY) ?? "{}");
    if (found && typeof found === "object") kept.value = found;
  } catch {
    // unreadable memory is no memory
  }
}

/**
 * Remember how far the open lesson has come.
 *
 * @param {Pick<Storage, "setItem"> | null} storage
 */
export function keep(storage) {
  const now = opened.peek();
  if (!now || Object.keys(now.changes).length) return;
  /** @type {Kept["answers"]} */
  const answers = {};
  /** @type {Kept["results"]} */
  const results = {};
  /** @type {number[]} */
  const missed = [];
  /** @type {string[]} */
  const recalled = [];
  for (const item of now.items) {
    if (item.kind === "work") answers[item.index] = item.given.map((told) => told?.deeds ?? null);
    if (item.kind === "mend") answers[item.index] = item.given.map((told) => told && { moves: told.moves });
    if (item.kind !== "ask" || !item.given.length) continue;
    answers[item.index] = item.given;
    if (!item.over) continue;
    if (item.again) recalled.push(item.again);
    else if ((results[item.rule] = resultOf(item)) !== "right") missed.push(item.index - recalled.length);
  }
  const before = kept.peek()[now.lesson];
  const here = now.items.at(-1);
  const isThrough = here?.kind === "sandbox" || (here !== undefined && isOptional(here, now));
  const isReview = now.lesson === REVIEW; // one after the other: what was recalled in any stays so
  const over = now.progress.over || (!isReview && (isThrough || Boolean(before?.over)));
  // those that a lesson written anew has no more count as asked
  if (isReview && over) recalled.push(...now.again.map(({ lesson, item }) => `${lesson}/${item}`));
  kept.value = {
    ...kept.peek(),
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
    storage?.setItem(MEMORY_KEY, JSON.stringify(kept.peek()));
  } catch {
    // a private window may refuse: the way is lost with it
  }
}

/** What the page calls questions that are asked once more on their own lesson's run. */
export const REVIEW = "again";
const MAX_REVIEWED = 8;

/**
 * Questions that were not answered right and that no later lesson's run decided: the learner has been at the end of all
 * lessons from theirs on, and they have not come back. Of the lessons that a model can play.
 */
export const leftOver = computed(() => {
  const all = (cards.value ?? []).filter(({ kind }) => kind === "lesson");
  const ways = kept.value;
  const back = new Set(Object.values(ways).flatMap(({ recalled }) => recalled ?? []));
  return all
    .filter(({ recorded, refused }) => !recorded && !refused)
    .filter(({ number }) => all.every((card) => card.number < number || ways[card.id]?.over))
    .flatMap(({ id: lesson }) => (ways[lesson]?.missed ?? []).map((item) => ({ lesson, item })))
    .filter(({ lesson, item }) => !back.has(`${lesson}/${item}`));
});

/** Those of the first lesson that has some, to be asked on one run. @returns {Earlier[]} */
export function toReview() {
  const all = leftOver.peek();
  return all.filter(({ lesson }) => lesson === all[0].lesson).slice(0, MAX_REVIEWED);
}

const MAX_EARLIER = 4; // that are asked for at once
const LESSONS_LATER = 2;

/**
 * Questions that come back in a lesson: those not answered right two lessons ago or longer, and not back yet.
 *
 * @param {string} id
 * @returns {Earlier[]}
 */
export function owedTo(id) {
  const all = cards.peek() ?? [];
  const ways = kept.peek();
  const number = all.find((card) => card.id === id)?.number ?? 0;
  const back = new Set(Object.keys(ways).flatMap((lesson) => (lesson === id ? [] : (ways[lesson].recalled ?? []))));
  return all
    .filter((card) => card.kind === "lesson" && card.number <= number - LESSONS_LATER)
    .flatMap(({ id: lesson }) => (ways[lesson]?.missed ?? []).map((item) => ({ lesson, item })))
    .filter(({ lesson, item }) => !back.has(`${lesson}/${item}`))
    .slice(-MAX_EARLIER);
}

/** How the first try was. @param {ToldAsk} item @returns {Result} */
const resultOf = ({ given, right }) => (given[0] === null ? "unsure" : given[0] === right ? "right" : "wrong");

/** Forget a lesson, to begin it again. @param {string} id */
export function forget(id) {
  const { [id]: _, ...rest } = kept.peek();
  kept.value = rest;
}
