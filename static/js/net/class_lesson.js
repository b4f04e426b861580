// The lesson that a class has on stage, as far as its presenter has come.

import { language } from "../tell/language.js";
import { Refusal } from "./client.js";
import { session } from "./session.js";

/**
 * The items of the lesson on `theater`. Throws Refusal or NoAnswer.
 *
 * @param {string} theater
 * @returns {Promise<import("../core/wire.js").LessonOpened>}
 */
export async function look(theater) {
  const { client } = session;
  if (!client) throw new Refusal({ code: "unknown_theater", message: "" });
  return client.ask("lesson_look", { theater, language: language.peek(), since: 0 });
}
