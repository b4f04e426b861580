import assert from "node:assert/strict";
import { test } from "node:test";
import { objectionWords, stepFailed } from "../../static/js/i18n/operations.js";
import { speak } from "./words.mjs";

const objection = {
  rule: "filled",
  text: "block 2 is cached with 3 of 4 slots filled",
  seq_id: null,
  block_id: 2,
  said: 3,
  counted: 4,
};

test("objections are worded in the page's language everywhere", () => {
  speak("en");
  assert.equal(objectionWords(objection), "block 2 has 3 filled slots, and 4 by the rest of the books");
  assert.equal(stepFailed(objection), `The step failed, and the engine's books say why: ${objectionWords(objection)}.`);
  speak("zh");
  assert.equal(objectionWords(objection), "块 2 记着填了 3 个槽，按其余账目应是 4 个");
  assert.match(stepFailed(objection), /^[^a-zA-Z]*$/);
  speak("en");
});

test("without a rule that is known the sentence is quoted", () => {
  assert.equal(objectionWords({ rule: "of a later version", text: "words" }), "“words”");
  assert.equal(objectionWords({ rule: "constructor", text: "words" }), "“words”");
});
