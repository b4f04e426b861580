// Course of a lesson whose run a server's model computes live. The page follows its session, and the server withholds
// records until the learner continues.

import { language } from "../i18n/language.js";
import { Refusal } from "./client.js";
import { rememberSession } from "./created_sessions.js";
import { session } from "./session.js";

/** @import {Events, LessonOpened, LessonState} from "../core/wire.js" */

/**
 * Fetch the items of the lesson on `theater`. Throws Refusal or NoAnswer.
 * @param {string} theater
 * @returns {Promise<LessonOpened>}
 */
export async function fetchItems(theater) {
  const { client } = session;
  if (!client) throw new Refusal({ code: "unknown_theater", message: "" });
  return client.ask("lesson_look", { theater, language: language.peek(), since: 0 });
}

/**
 * @typedef {import("../core/wire.js").LessonAnswerMessage["given"]} Given an option, a list of operations; null: not
 *   sure
 * @typedef {{
 *   lesson: string, language: string, theater: string | null, at: number,
 *   answers: Record<string, Given[]>, changes: Record<string, number>, again: import("../core/wire.js").Earlier[],
 * }} LessonRequest request for a lesson up to item `at`, or as far as the answers allow
 * @typedef {object} Course source of a lesson's questions and run
 * @property {"live" | "server" | "file" | "class"} source where the run and the right answers are: for live and
 * recorded lessons the server withholds them; for a file they are in the page; for a class its presenter controls them
 * @property {(request: LessonRequest, isWanted: () => boolean) => Promise<LessonOpened>} open `isWanted`: whether the
 * lesson is still requested
 * @property {(theater: string, item: number) => Promise<LessonState>} go carry out item `item`
 * @property {(theater: string, item: number, given: Given) => Promise<LessonState>} answer null: not sure
 * @property {(theater: string) => Promise<unknown>} follow show its run
 */

const RETRY_MS = 500; // until a server without a loaded model is retried
const RESET_NOTICE_MS = 1000; // after a response, within which the `reset` of a new run arrives

/** @type {Course} */
export const liveCourse = {
  source: "live",
  open: (request, isWanted) => ask("lesson_open", request, isWanted),
  go: (theater, item) => ask("lesson_go", { theater, item }),
  answer: (theater, item, given) => ask("lesson_answer", { theater, item, given }),
  follow: (theater) => (rememberSession(theater), session.watch(theater)), // this learner's session
};

/**
 * @template {"lesson_open" | "lesson_go" | "lesson_answer"} E
 * @param {E} event
 * @param {Events[E]["request"]} body
 * @param {() => boolean} [isWanted] whether to retry while a model is loading
 * @returns {Promise<Events[E]["answer"]>}
 */
async function ask(event, body, isWanted = () => true) {
  const { client, run } = session;
  if (!client) throw new Refusal({ code: "unknown_theater", message: "" });
  if (run) run.resetting += 1; // the lesson may restart its run, which is not another user's reset
  try {
    return await client.ask(event, body);
  } catch (error) {
    if (!(error instanceof Refusal && error.code === "loading") || !isWanted()) throw error;
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    return await ask(event, body, isWanted);
  } finally {
    if (run) setTimeout(() => (run.resetting -= 1), RESET_NOTICE_MS);
  }
}
