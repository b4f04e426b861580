// A lesson: opening it where one was, going on, answering; and what its run shows meanwhile.

import { batch, effect, signal } from "../../vendor/signals/signals.js";
import { Refusal } from "../net/client.js";
import { session } from "../net/session.js";
import { cards, forget, keep, kept, opened, readKept, shownPart } from "../state/lessons.js";
import { own } from "../state/run.js";
import { parseQuery, settings } from "../state/settings.js";
import * as store from "../state/store.js";
import { language } from "../tell/language.js";
import { addMoreWords } from "../tell/words.js";
import { play, stop } from "./playback.js";
import { takeOver } from "./player.js";

/** @typedef {import("../core/wire.js").LessonState} LessonState */

const AGAIN = 500; // ms after which a server that is away, or has no model yet, is asked again
const RESET_COMES = 1000; // ms after an answer within which the news of a new run is there
const LONGEST = 8; // seconds that what one action did is played for

/** Whether the server is asked something of the lesson now. */
export const waiting = signal(false);

/** @type {Pick<Storage, "getItem" | "setItem"> | null} */
let storage = null;
/** @type {(() => void) | null} what gives the page back to the learner */
let release = null;

/**
 * Open the lesson that the address names, whenever it names another; the page's language is the lesson's.
 *
 * @param {Pick<Storage, "getItem" | "setItem"> | null} memory
 */
export function followLessons(memory) {
  storage = memory;
  readKept(memory);
  effect(() => {
    const [wanted, code, connection] = [settings.lesson.value, language.value, store.connection.value];
    if (settings.distance.value === "learn" && cards.peek() === null) loadCards();
    if (!wanted || waiting.peek()) return;
    const now = opened.peek();
    const isOther = now?.lesson !== wanted || now.language !== code;
    if (connection === "gone" || (connection === "live" && isOther)) queueMicrotask(() => open(wanted));
  });
  effect(() => {
    if (settings.lesson.value === null && opened.peek()) close();
  });
}

/** Ask which lessons there are. */
async function loadCards() {
  try {
    const answer = await fetch("api/lessons");
    cards.value = answer.ok ? (await answer.json()).lessons : [];
  } catch {
    cards.value = []; // a file, or a site, has no server
  }
}

/**
 * To a lesson, or to the list of them (null).
 *
 * @param {string | null} id
 */
export function learn(id) {
  batch(() => {
    settings.lesson.value = id;
    settings.distance.value = "learn";
  });
}

/** Begin the open lesson again. */
export function again() {
  const now = opened.peek();
  if (!now) return;
  forget(now.lesson);
  opened.value = null;
  open(now.lesson);
}

/** Carry out what one stands before. */
export async function goOn() {
  const now = opened.peek();
  if (!now || waiting.peek()) return;
  const before = own.numRecords.peek();
  stop();
  if (before) store.goTo(before - 1);
  const item = now.progress.at;
  const answer = await ask("lesson_go", { theater: now.theater, item });
  if (!answer) return store.backToLive();
  take(answer);
  await shown(before);
}

/**
 * Answer the question that one stands before; null: not sure.
 *
 * @param {number | null} given
 */
export async function answer(given) {
  const now = opened.peek();
  if (!now || waiting.peek()) return;
  const told = await ask("lesson_answer", { theater: now.theater, item: now.progress.at, given });
  if (told) take(told);
}

/**
 * Make the lesson's run again, as far as one has come, with other settings; none: with its own.
 *
 * @param {Record<string, number>} changes
 */
export async function change(changes) {
  const now = opened.peek();
  if (!now || waiting.peek()) return;
  /** @type {Record<string, null[]>} */
  const answers = {};
  for (const item of now.items) if (item.kind === "ask" && item.over) answers[item.index] = [null];
  const own = !Object.keys(changes).length;
  if (own) await open(now.lesson);
  else await begin({ lesson: now.lesson, theater: null, at: now.progress.at, answers, changes });
}

/**
 * Open a lesson where one was. Its run may be gone, with its server too: it is made again as soon as that is back.
 *
 * @param {string} wanted
 */
async function open(wanted) {
  while (session.client && !session.client.connected) {
    await new Promise((resolve) => setTimeout(resolve, AGAIN));
    if (settings.lesson.peek() !== wanted) return;
  }
  const before = kept.peek()[wanted];
  const begun = await begin({
    lesson: wanted,
    theater: before?.theater ?? null,
    at: before?.at ?? -1,
    answers: before?.answers ?? {},
    changes: {},
  });
  if (!begun) settings.lesson.value = null;
}

/**
 * @param {{
 *   lesson: string, theater: string | null, at: number, answers: Record<string, (number | null)[]>,
 *   changes: Record<string, number>,
 * }} wish
 */
async function begin(wish) {
  const told = await ask("lesson_open", { language: language.peek(), ...wish });
  if (!told) return false;
  addMoreWords(language.peek(), told.words);
  const { lesson, kind, title, minutes, theater, progress } = told;
  const items = /** @type {import("../state/lessons.js").Item[]} */ (told.items);
  batch(() => {
    const { changes } = wish;
    opened.value = { lesson, kind, language: language.peek(), title, minutes, theater, items, progress, changes };
    release ??= takeOver(lessonPlayer);
    look();
  });
  keep(storage);
  await session.watch(theater);
  free();
  return true;
}

/** @param {LessonState} told */
function take(told) {
  const now = opened.peek();
  if (!now || now.theater !== told.theater) return;
  const items = [
    ...now.items.filter((item) => item.index < told.first),
    .../** @type {import("../state/lessons.js").Item[]} */ (told.items),
  ];
  batch(() => {
    opened.value = { ...now, items, progress: told.progress };
    look();
  });
  keep(storage);
  free();
}

/** Look where the lesson says. */
function look() {
  const show = shownPart.peek();
  if (!show) return;
  const values = parseQuery(new URLSearchParams(show.view).toString());
  const all = /** @type {Record<string, import("../../vendor/signals/signals.js").Signal<unknown>>} */ (settings);
  for (const [name, value] of Object.entries(values)) all[name].value = value;
}

/** In the sandbox and at the end the run is the learner's. */
function free() {
  const now = opened.peek();
  const item = now?.items.at(-1);
  if (!now || (!now.progress.over && item?.kind !== "sandbox")) return;
  release?.();
  release = null;
}

function close() {
  release?.();
  release = null;
  opened.value = null;
}

/**
 * Play what an action added, once it is here.
 *
 * @param {number} before records that there were
 */
async function shown(before) {
  const now = opened.peek();
  const done = now?.items.filter((item) => item.kind === "do" && item.moment).at(-1);
  const moment = done?.kind === "do" ? done.moment : null;
  if (!moment) return;
  for (let i = 0; i < 200 && own.numRecords.peek() < moment.records; i++)
    await new Promise((resolve) => setTimeout(resolve, 25));
  const count = moment.records - before;
  if (count > 1 && before <= moment.records) {
    settings.speed.value = Math.max(2, Math.ceil(count / LONGEST));
    play();
  } else store.backToLive();
}

/**
 * @template {"lesson_open" | "lesson_go" | "lesson_answer"} E
 * @param {E} event
 * @param {import("../core/wire.js").Events[E]["asked"]} body
 * @returns {Promise<import("../core/wire.js").Events[E]["answer"] | null>}
 */
async function ask(event, body) {
  const { client } = session;
  if (!client) return null;
  const { run } = session;
  waiting.value = true;
  if (run) run.resetting += 1; // a lesson that begins a new run does so because the learner went on
  try {
    return await client.ask(event, body);
  } catch (error) {
    if (error instanceof Refusal && error.code === "loading") return await later(event, body);
    session.complain(error, client);
    return null;
  } finally {
    waiting.value = false;
    if (run) setTimeout(() => (run.resetting -= 1), RESET_COMES);
  }
}

/**
 * @template {"lesson_open" | "lesson_go" | "lesson_answer"} E
 * @param {E} event
 * @param {import("../core/wire.js").Events[E]["asked"]} body
 * @returns {ReturnType<typeof ask<E>>}
 */
async function later(event, body) {
  await new Promise((resolve) => setTimeout(resolve, AGAIN));
  return ask(event, body);
}

async function step() {
  if (opened.peek()?.items.at(-1)?.kind !== "do") return false;
  await goOn();
  return true;
}

/**
 * While a lesson drives its run, the transport moves through what there is, and "next" goes on with the lesson.
 *
 * @type {import("./player.js").Player}
 */
const lessonPlayer = {
  live: () => store.connection.value === "live",
  running: () => false,
  prefill: null,
  step,
  run: step,
  pause: () => {},
  reset: () => {},
  add: null,
  forks: false,
  differs: () => false,
  restart: () => {},
  say: () => null,
};
