// Moves into a block table, up to the shown record.

import assert from "node:assert/strict";
import { test } from "node:test";

import { arriving, placeKey } from "../../static/js/panels/memory/pool_scene.js";
import { followPlayhead, movePlayhead, reducedMotion } from "../../static/js/state/playhead.js";
import * as store from "../../static/js/state/store.js";
import { shared } from "./histories.mjs";

test("a block that is shared is on its way into the second table, and stays in the first", () => {
  const log = shared();
  const index = log.records.findIndex((record) => record.ops?.some((op) => op.type === "share"));
  const { seq_id: second, block_id: block } = log.records[index].ops.find((op) => op.type === "share");
  reducedMotion.value = true;
  store.own.log.value = log;
  store.own.numRecords.value = log.length;
  followPlayhead();
  movePlayhead(index, 0); // the scheduler has decided, nothing is allocated yet
  assert.equal(arriving.value.has(placeKey(second, block)), true);
  assert.equal(arriving.value.has(placeKey(0, block)), false);
  movePlayhead(index, 1); // allocated
  assert.equal(arriving.value.has(placeKey(second, block)), false);
});
