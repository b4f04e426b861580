// Memory of a device in parts, and no invented part where the sums disagree.

import assert from "node:assert/strict";
import { test } from "node:test";
import { partsOf } from "../../static/js/panels/models/panel.js";

const facts = {
  name: "GPU",
  has_own_memory: true,
  total_bytes: 100,
  free_bytes: 30,
  process_bytes: 60,
  clock_mhz: null,
  power_watts: null,
}; // prettier-ignore

test("the parts sum to the device's memory", () => {
  const parts = partsOf({ facts, weights_bytes: 20, pools_bytes: 25, logs_bytes: 9 });
  assert.deepEqual(parts, [
    ["weights", 20],
    ["pools", 25],
    ["rest", 15],
    ["others", 10],
    ["free", 30],
  ]);
  assert.equal(
    parts.reduce((sum, [, bytes]) => sum + bytes, 0),
    facts.total_bytes,
  );
});

test("an inconsistent rest is omitted", () => {
  const untouched = { ...facts, process_bytes: 30 }; // pages of the pool that nothing was written to
  const names = partsOf({ facts: untouched, weights_bytes: 20, pools_bytes: 25, logs_bytes: 0 }).map(([name]) => name);
  assert.deepEqual(names, ["weights", "pools", "others", "free"]);
});
