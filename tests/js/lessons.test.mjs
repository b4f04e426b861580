// Lessons remembered by this device: the questions that are repeated, and when.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import {
  cards,
  currentLesson,
  dueReviews,
  REVIEW,
  reviewsFor,
  storedProgress,
  storeProgress,
  toReview,
} from "../../static/js/state/lessons.js";

const card = (id, number, kind = "lesson") => ({ id, number, kind });
const asked = (index, given, right, again = null) => ({
  kind: "ask",
  index,
  rule: `rule${index}`,
  given: [given],
  right,
  over: true,
  again,
});

function learned(lesson, items) {
  const progress = { at: 9, over: true };
  currentLesson.value = { lesson, kind: "lesson", theater: "t", items, progress, changes: {}, again: [] };
  storeProgress(null);
}

beforeEach(() => {
  storedProgress.value = {};
  cards.value = [card("before", 0, "before"), card("one", 1), card("two", 2), card("three", 3), card("four", 4)];
});

test("wrong answers return two lessons later", () => {
  learned("one", [asked(2, 0, 0), asked(5, 1, 0), asked(7, null, 0)]);
  assert.deepEqual(reviewsFor("two"), []);
  const owed = [5, 7].map((item) => ({ lesson: "one", item }));
  assert.deepEqual(reviewsFor("three"), owed);
  assert.deepEqual(reviewsFor("four"), owed, "it has not come back yet");
});

test("a repeated question does not return again", () => {
  learned("one", [asked(5, 1, 0)]);
  learned("three", [asked(3, 1, 0, "one/5"), asked(6, 1, 0)]);
  assert.deepEqual(reviewsFor("four"), []);
  assert.deepEqual(storedProgress.value.three.missed, [5], "without the one that came back before it");
  assert.deepEqual(Object.keys(storedProgress.value.three.results), ["rule6"]);
});

test("questions that no later lesson asked are reviewed at the end", () => {
  learned("one", [asked(5, 1, 0), asked(7, null, 0)]);
  learned("two", []);
  learned("three", [asked(2, 0, 0, "one/7")]);
  assert.deepEqual(dueReviews.value, [], "the last lesson is not over: it may ask it");
  learned("four", [asked(6, 1, 0)]);
  assert.deepEqual(dueReviews.value, [
    { lesson: "one", item: 5 },
    { lesson: "four", item: 6 },
  ]);
  assert.deepEqual(toReview(), [{ lesson: "one", item: 5 }]);
  learned(REVIEW, [asked(1, 1, 0, "one/5")]);
  assert.deepEqual(toReview(), [{ lesson: "four", item: 6 }]);
  learned(REVIEW, [asked(1, 0, 0, "four/6")]);
  assert.deepEqual(dueReviews.value, [], "the one before counts too");
});

test("removed questions are no longer reviewed", () => {
  for (const lesson of ["one", "two", "three", "four"]) learned(lesson, lesson === "two" ? [asked(5, 1, 0)] : []);
  assert.equal(dueReviews.value.length, 1);
  currentLesson.value = { ...currentLesson.value, lesson: REVIEW, items: [], again: toReview() };
  storeProgress(null);
  assert.deepEqual(dueReviews.value, []);
});

test("lessons without a model are not reviewed", () => {
  cards.value = [card("one", 1), { ...card("two", 2), recorded: true }, { ...card("three", 3), refused: "no model" }];
  for (const lesson of ["one", "two", "three"]) learned(lesson, [asked(5, 1, 0)]);
  assert.deepEqual(dueReviews.value, [{ lesson: "one", item: 5 }]);
});
