// The lesson that a class has on stage, as far as its presenter has come.

import { told } from "../state/classroom.js";
import { language } from "../tell/language.js";
import { Refusal } from "./client.js";
import { session } from "./session.js";

/**
 * The lesson's items from `since` on. Throws Refusal or NoAnswer.
 *
 * @param {number} since
 * @returns {Promise<import("../core/wire.js").LessonOpened>}
 */
export async function look(since) {
  const { client } = session;
  const theater = told.peek()?.lesson?.theater;
  if (!client || !theater) throw new Refusal({ code: "unknown_theater", message: "" });
  return client.ask("lesson_look", { theater, language: language.peek(), since });
}
