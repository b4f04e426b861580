// Several operations described together; a single one is compared with Python's words by test_messages_parity.py.

import assert from "node:assert/strict";
import { test } from "node:test";
import { facetsOf, messagesOf } from "../../static/js/core/messages.js";
import { kindOf, OPERATION_KINDS } from "../../static/js/core/operation_kinds.js";
import { STRUCTS } from "../../static/js/core/schema.js";
import { messagesText, operationName, rangesText } from "../../static/js/i18n/operations.js";
import { grouped } from "../../static/js/i18n/words.js";
import { speak } from "./words.mjs";

const TYPES = Object.keys(STRUCTS.StepRecord[1].ops.list.tagged);

test("merged ids are listed, counts summed, steps ranged", () => {
  speak("en");
  const evict = (block_id, lifetime_steps, num_hits) => ({
    ...{ type: "evict", block_id, seq_id: 1, lifetime_steps, idle_steps: 2, num_hits },
  });
  assert.equal(
    messagesText(messagesOf([evict(4, 3, 1), evict(5, 12, 1), evict(9, 5, 0)])),
    "3 cached blocks (4, 5, 9) evicted: – needs the room. They lived 3–12 steps, were found 2 times, and idle for 2.",
  );
  const share = (block_id, revived) => ({ type: "share", seq_id: 1, block_id, logical: block_id, revived });
  assert.equal(
    messagesText(messagesOf([share(3, true), share(4, false), share(5, true)])),
    "seq 1 shares 3 cached blocks (3–5), 2 of them taken back from the free queue.",
  );
  speak("zh");
  assert.equal(messagesText(messagesOf([share(3, true)]), "chain"), "共享：前缀缓存命中");
});

test("each facet value is stated for its operations", () => {
  speak("en");
  const free = (block_id, to) => ({ type: "free", seq_id: 0, block_id, to, reason: "finish" });
  const parts = messagesOf([free(3, "back"), free(2, null), free(1, "back")]);
  assert.deepEqual(
    parts.map(([key, { n, block_id }]) => [key, n, block_id]),
    [
      ["op.free", 3, [3, 2, 1]],
      ["op.free.reason.finish", 3, [3, 2, 1]],
      ["op.free.to.back", 2, [3, 1]],
      ["op.free.to.none", 1, [2]],
    ],
  );
  assert.deepEqual(
    facetsOf("preempt").map(({ name }) => name),
    ["whom", "reason", "cost", "swap_refused"],
  );
});

test("every type has a name; the table of kinds has no type that there is not, and none is needed", () => {
  speak("en");
  for (const type of TYPES) assert.notEqual(operationName(type), `op.${type}.chain`);
  assert.deepEqual(
    Object.keys(OPERATION_KINDS).filter((type) => !TYPES.includes(type)),
    [],
  );
  assert.deepEqual(kindOf("brand_new"), {});
  assert.equal(operationName("brand_new"), "brand_new");
});

test("blocks as ranges, digits in groups", () => {
  assert.equal(rangesText([3, 4, 5, 7, 8, 12]), "3–5, 7, 8, 12");
  assert.equal(rangesText([1, 3, 5, 7, 9, 11, 13]), "1, 3, 5, 7, 9, …");
  assert.deepEqual([0, 999, 36864, 1234567.25, -1024, "–"].map(grouped), [
    "0",
    "999",
    "36\u2009864",
    "1\u2009234\u2009567.25",
    "-1\u2009024",
    "–",
  ]);
});
