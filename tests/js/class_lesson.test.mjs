// The lesson that a class has on stage, when what the server says of it comes out of turn.

import assert from "node:assert/strict";
import { test } from "node:test";

import { followClassLesson } from "../../static/js/control/class_lesson.js";
import { language } from "../../static/js/i18n/language.js";
import { classState } from "../../static/js/state/classroom.js";
import { currentLesson } from "../../static/js/state/lessons.js";
import { following, socket, soon } from "./session_page.mjs";

const lessonAt = (at) => ({ theater: "L", lesson: "pages", title: {}, items: [], progress: { at }, words: {} });

test("an outdated response does not replace a later one", async () => {
  await following(1);
  language.value = "en";
  followClassLesson();
  for (const at of [0, 1]) {
    classState.value = { id: "c", lesson: { theater: "L", at, version: at }, poll: null };
    await soon();
  }
  const [first, second] = [socket.question("lesson_look"), socket.question("lesson_look")];
  second.answer(lessonAt(1));
  await soon();
  first.answer(lessonAt(0));
  await soon();
  assert.equal(currentLesson.value.progress.at, 1);
});
