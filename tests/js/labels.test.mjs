import assert from "node:assert/strict";
import { test } from "node:test";

import { joinText, labelText, loneLabel, tokenLabels } from "../../static/js/core/labels.js";
import { bytes } from "./log_builder.mjs";

test("fragments of a character are named by the character and their part", () => {
  const moon = bytes("月");
  const labels = tokenLabels([bytes("明"), moon.slice(0, 1), moon.slice(1, 2), moon.slice(2)]);
  assert.deepEqual(labels.map(labelText), ["明", "月 1/3", "月 2/3", "月 3/3"]);
});

test("an incomplete character shows its bytes", () => {
  const labels = tokenLabels([bytes("明"), bytes("月").slice(0, 2)]);
  assert.equal(labelText(labels[1]), "E6 9C");
  assert.equal(labelText(loneLabel(Uint8Array.from([0xff]))), "FF");
});

test("a fragment is relabelled when it is completed", () => {
  const list = [bytes("月").slice(0, 2)];
  assert.equal(labelText(tokenLabels(list)[0]), "E6 9C");
  list.push(bytes("月").slice(2));
  assert.equal(labelText(tokenLabels(list)[0]), "月 1/2");
});

test("whitespace can be seen", () => {
  assert.deepEqual(tokenLabels([bytes(" the"), bytes("\n"), bytes("")]).map(labelText), ["␣the", "⏎", "∅"]);
});

test("joined text leaves out the bytes of an unfinished character", () => {
  assert.equal(joinText([bytes("明"), bytes("月").slice(0, 2)]), "明");
  assert.equal(joinText([]), "");
});
