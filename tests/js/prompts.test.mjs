// The prompt in the box: offered in the reader's language, kept as entered, sent once.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { TraceLog } from "../../static/js/core/log.js";
import { draft, draftIsSent, followRun, keepDraft, markSent, writeDraft } from "../../static/js/state/prompts.js";
import { own } from "../../static/js/state/store.js";
import { bytes, header, op, recordsOf } from "./log_builder.mjs";
import { speak } from "./words.mjs";

/** A run that was asked `prompts`, each a list of its tokens' texts, is shown. */
function shows(...prompts) {
  const found = new TraceLog(header());
  const ops = prompts.map((tokens, seq) => ({
    ...op.submit(
      seq,
      tokens.map((_, i) => i),
    ),
    prompt_token_bytes: tokens.map(bytes),
  }));
  if (ops.length) for (const record of recordsOf([{ kind: "submit", ops }])) found.append(record);
  own.log.value = found;
  own.numRecords.value = found.length;
}

beforeEach(() => {
  speak("en");
  followRun();
  shows();
});

test("an untouched box offers a prompt in the reader's language", () => {
  assert.deepEqual([draft.value, draftIsSent.value], ["Who has seen the wind?", false]);
  speak("zh");
  assert.deepEqual([draft.value, draftIsSent.value], ["春江潮水连海平，海上明月共潮生。", false]);
});

test("a visitor of a started run finds its prompt in the box, which no step sends again", () => {
  shows(["Once", " upon", " a", " time"]);
  assert.deepEqual([draft.value, draftIsSent.value], ["Once upon a time", true]);
  speak("zh");
  assert.equal(draft.value, "Once upon a time", "another language changes no run");
});

test("of several prompts the newest is in the box", () => {
  shows(["a"], ["b", "c"]);
  assert.equal(draft.value, "bc");
});

test("tokens prepended by a tokenizer are not part of the prompt", () => {
  shows(["<s>", " Once", " upon"]);
  assert.equal(draft.value, "Once upon");
});

test("a draft is kept and sent once", () => {
  writeDraft("moon");
  shows(["sea"]);
  assert.deepEqual([draft.value, draftIsSent.value], ["moon", false]);
  markSent("moon");
  assert.deepEqual([draft.value, draftIsSent.value], ["moon", true]);
  writeDraft("moon");
  assert.equal(draftIsSent.value, false);
});

test("text typed during a submission is not sent", () => {
  writeDraft("moon");
  writeDraft("moons");
  markSent("moon");
  assert.deepEqual([draft.value, draftIsSent.value], ["moons", false]);
});

test("a box emptied by hand stays empty", () => {
  writeDraft("");
  assert.equal(draft.value, "");
});

test("before a reset the prompt is kept to be sent again, after it", () => {
  shows(["sea"]);
  keepDraft();
  shows();
  assert.deepEqual([draft.value, draftIsSent.value], ["sea", false]);
});
