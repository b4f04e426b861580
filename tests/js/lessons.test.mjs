// What this device remembers of lessons: which questions come back, and when.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { cards, keep, kept, opened, owedTo } from "../../static/js/state/lessons.js";

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
  opened.value = { lesson, kind: "lesson", theater: "t", items, progress, changes: {}, again: [] };
  keep(null);
}

beforeEach(() => {
  kept.value = {};
  cards.value = [card("before", 0, "before"), card("one", 1), card("two", 2), card("three", 3), card("four", 4)];
});

test("what was not right comes back two lessons later, and not before", () => {
  learned("one", [asked(2, 0, 0), asked(5, 1, 0), asked(7, null, 0)]);
  assert.deepEqual(owedTo("two"), []);
  const owed = [5, 7].map((item) => ({ lesson: "one", item }));
  assert.deepEqual(owedTo("three"), owed);
  assert.deepEqual(owedTo("four"), owed, "it has not come back yet");
});

test("what has come back does not come again, and counts in its own lesson only", () => {
  learned("one", [asked(5, 1, 0)]);
  learned("three", [asked(3, 1, 0, "one/5"), asked(6, 1, 0)]);
  assert.deepEqual(owedTo("four"), []);
  assert.deepEqual(kept.value.three.missed, [5], "without the one that came back before it");
  assert.deepEqual(Object.keys(kept.value.three.results), ["rule6"]);
});
