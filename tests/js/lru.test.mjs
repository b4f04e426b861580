import assert from "node:assert/strict";
import { test } from "node:test";

import { TraceLog } from "../../static/js/core/log.js";
import { ByteLru } from "../../static/js/core/lru.js";
import { Decoder } from "../../static/vendor/msgpack/Decoder.mjs";
import { encode } from "../../static/vendor/msgpack/encode.mjs";
import { header, records } from "./log_builder.mjs";

test("the value used longest ago goes first, and no more than needed", () => {
  const kept = new ByteLru(10);
  kept.set("a", 1, 4);
  kept.set("b", 2, 4);
  assert.equal(kept.get("a"), 1); // used: now "b" is the oldest
  kept.set("c", 3, 4); // 12 > 10
  assert.deepEqual(
    ["a", "b", "c"].map((key) => kept.has(key)),
    [true, false, true],
  );
  assert.equal(kept.bytes, 8);
});

test("a value heavier than the limit stays alone; setting it again does not count twice", () => {
  const kept = new ByteLru(10);
  kept.set("a", 1, 4);
  kept.set("b", 2, 50);
  assert.deepEqual([kept.has("a"), kept.has("b"), kept.bytes], [false, true, 50]);
  kept.set("b", 3, 6);
  assert.deepEqual([kept.get("b"), kept.bytes], [3, 6]);
});

test("a limited log evicts captures and reloads them by layer", () => {
  const all = records();
  const captured = all.map(([, capture], index) => (capture ? index : -1)).filter((index) => index >= 0);
  assert.ok(captured.length >= 2, "the small log has captures");
  const bounded = new TraceLog(header(), 1);
  const whole = new TraceLog(header());
  for (const [record, capture] of all) {
    bounded.append(record, capture);
    whole.append(record, capture);
  }
  const [first] = captured;
  assert.equal(bounded.captureMissing(first, 0), false, "nobody fetches");
  bounded.fetchable = whole.fetchable = true;
  assert.deepEqual([bounded.captureMissing(first, 0), bounded.layer(first, 0)], [true, null]);
  assert.equal(bounded.captureMissing(captured.at(-1), 0), false);
  assert.equal(whole.captureMissing(first, 0), false);
  const untyped = new Decoder().decode(all[first][1]); // arrays stay the extension that they travel as
  bounded.addLayer(first, 0, encode(untyped.layers[0]));
  assert.equal(bounded.captureMissing(first, 0), false);
  assert.deepEqual(bounded.layer(first, 0).k.row(0, 0), whole.layer(first, 0).k.row(0, 0));
});
