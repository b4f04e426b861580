// Number of records that a fork leaves unchanged, for each kind of change.

import assert from "node:assert/strict";
import { test } from "node:test";

import { KINDS, recordsKept } from "../../static/js/control/fork.js";
import { settings } from "../../static/js/state/settings.js";
import { own } from "../../static/js/state/store.js";

own.log.value = { header: { model: { num_layers: 1, num_heads: 1 } }, records: [], length: 10, stateAt: () => null };
own.numRecords.value = 10;

test("a fork's change follows its record; tokens change in the record that chose them", () => {
  settings.step.value = 4; // the fifth record is looked at
  assert.deepEqual(
    KINDS.map((kind) => [kind, recordsKept({ kind, record: 4 })]),
    [
      ["token", 4],
      ["request", 5],
      ["abort", 5],
      ["sampling", 5],
      ["config", 0],
    ],
  );
  settings.step.value = null; // the newest
  assert.equal(recordsKept({ kind: "abort" }), 10);
  settings.step.value = -1; // before the first
  assert.equal(recordsKept({ kind: "request" }), 0);
});
