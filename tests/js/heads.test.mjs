import assert from "node:assert/strict";
import { test } from "node:test";
import { measuredHeads } from "../../static/js/core/roles.js";
import { en, zh } from "./words.mjs";

const entry = (pattern, mean_weight, uniform) => ({ pattern, layer: 0, head: 0, mean_weight, uniform, queries: 9 });

test("weak heads are not offered, and the order is stable", () => {
  const heads = [
    entry("previous_token", 0.88, 0.04),
    entry("first_token", 0.05, 0.04),
    entry("itself", 0.11, 0.05),
    entry("induction", 0.2, 0.01),
  ];
  assert.deepEqual(
    measuredHeads({ heads }).map((h) => h.pattern),
    ["previous_token", "induction"],
  );
  assert.deepEqual(measuredHeads({}), []);
});

test("every pattern that is measured has its words", () => {
  for (const name of [
    "previous_token",
    "clause_start",
    "parallel_clause",
    "last_punctuation",
    "first_token",
    "itself",
    "induction",
  ])
    for (const texts of [en, zh]) assert.ok(`stage.pattern.${name}` in texts, name);
});
