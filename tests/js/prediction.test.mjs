// Answers in the picture: those of the open question to choose from, then the chosen one beside the log's.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { choose, marks, questionsByAction, revisitQuestion, turnTo } from "../../static/js/panels/lesson/prediction.js";
import { currentLesson } from "../../static/js/state/lessons.js";

const ask = (index, more = {}) => ({
  kind: "ask",
  index,
  options: [0, 1, 2].map((n) => ({
    text: "answer.block",
    values: { n },
    number: n,
    place: { kind: "block", block: n },
  })),
  given: [],
  over: false,
  right: null,
  ...more,
});
const act = (index, verb = "step", done = true) => ({
  kind: "do",
  index,
  action: { verb },
  moment: done ? { run: 0, records: index } : null,
});
const answered = (index, given, right) => ask(index, { given, over: true, right });

function stands(items, more = {}) {
  currentLesson.value = { kind: "lesson", items, progress: { at: items.at(-1).index, over: false }, ...more };
}

const roles = () => marks.value.map(({ item, option, role }) => `${item.index}/${option} ${role}`);

beforeEach(() => stands([act(0)]));

test("an open question's places are offered alike, and the chosen one is marked", () => {
  const item = ask(1);
  stands([act(0), item]);
  assert.deepEqual(roles(), ["1/0 offered", "1/1 offered", "1/2 offered"]);
  choose(item, 2);
  assert.deepEqual(roles(), ["1/0 offered", "1/1 offered", "1/2 chosen"]);
});

test("after the answer one's own stands beside what the log has, before and after the step", () => {
  stands([act(0), answered(1, [0, 2], 1), act(2, "step", false)]);
  assert.deepEqual(roles(), ["1/0 mine", "1/1 outcome", "1/2 mine"]);
  stands([act(0), answered(1, [1], 1), act(2)]);
  assert.deepEqual(roles(), ["1/1 both"]);
});

test("the next question waits for the learner to turn to it", () => {
  const next = ask(3);
  stands([act(0), answered(1, [0], 1), act(2), next]);
  assert.deepEqual(roles(), ["1/0 mine", "1/1 outcome"]);
  turnTo(next);
  assert.deepEqual(roles(), ["3/0 offered", "3/1 offered", "3/2 offered"]);
  revisitQuestion(currentLesson.value.items[1]);
  assert.deepEqual(roles(), ["1/0 mine", "1/1 outcome"]);
});

test("another run has no places of the one before", () => {
  stands([act(0), answered(1, [0], 1), act(2), act(4, "restart")]);
  assert.deepEqual(roles(), []);
});

test("where learning is measured, nothing is told before the end", () => {
  stands([act(0), answered(1, [0], 1), act(2)], { kind: "before" });
  assert.deepEqual(roles(), ["1/0 mine"]);
});

test("questions that one action decides belong together", () => {
  const groups = questionsByAction([act(0), answered(1, [0], 0), answered(2, [0], 0), act(3), act(4), ask(5)]);
  assert.deepEqual(
    groups.map((group) => group.map(({ index }) => index)),
    [[5], [1, 2]],
  );
});
