// A chosen sequence that has finished is shown as at the last record that computed it, while others
// go on in its blocks.

import assert from "node:assert/strict";
import { test } from "node:test";
import { TraceLog } from "../../static/js/core/log.js";
import { originOf } from "../../static/js/core/sequence_view.js";
import * as moment from "../../static/js/state/playhead.js";
import { settings } from "../../static/js/state/settings.js";
import * as stage from "../../static/js/state/stage_playhead.js";
import * as store from "../../static/js/state/store.js";
import { batch } from "../../static/vendor/signals/signals.js";
import { header, op, recordsOf } from "./log_builder.mjs";

moment.followPlayhead();

/** Sequence 0 has two tokens in block 0 and ends in record 2; sequence 1 takes block 0 in record 4; 2 is aborted in the queue. */
const RECORDS = recordsOf([
  { kind: "submit", ops: [op.submit(0, [1], 2)] },
  {
    batch: [op.entry(0, "prefill", 0, [1])],
    ops: [op.admit(0), op.allocate(0, 0, 0), op.write(0, 0, 1), op.sample(0)],
  },
  {
    batch: [op.entry(0, "decode", 1, [7])],
    ops: [op.write(0, 1, 1), op.sample(0), op.free(0, 0, "front"), op.finish(0)],
  },
  { kind: "submit", ops: [op.submit(1, [2], 4), { ...op.submit(2, [3], 4), queue_position: 1 }] },
  {
    batch: [op.entry(1, "prefill", 0, [2])],
    ops: [op.admit(1), op.allocate(1, 0, 0), op.write(1, 0, 1), op.sample(1)],
  },
  { kind: "abort", ops: [op.finish(2, "abort")] },
]);

function show(seq, index) {
  const log = new TraceLog(header());
  for (const bytes of RECORDS) log.append(bytes);
  batch(() => {
    store.own.log.value = log;
    store.own.numRecords.value = log.length;
    settings.seq.value = seq;
    store.goTo(index);
  });
  while (moment.advance(performance.now() + 1e6));
}

test("a finished sequence is shown as in its last step", () => {
  show(0, 5);
  assert.equal(store.drawnIndex.value, 5);
  assert.deepEqual([store.stageIndex.value, store.showsEarlierRecord.value], [2, true]);
  const view = store.sequenceView.value;
  assert.equal(view.seq.token_ids.length, 3); // the prompt's token and two that were chosen
  assert.equal(view.numFilled, 2);
  assert.deepEqual(view.table, [0]);
  assert.deepEqual(originOf(view, 0), { record: 1, seq_id: 0, position: 0, at: 1 }); // not sequence 1, which wrote there later
  for (const name of moment.PHASES) assert.equal(stage.phase(name), 1);
  assert.equal(stage.viewSub.value, null);
});

test("its past blocks are described, and no other block is framed", () => {
  show(0, 5);
  store.hovered.value = { position: 0 };
  const kinds = store.chain.value.links.map((link) => link.kind);
  assert.ok(kinds.includes("slot") && kinds.includes("block"), kinds.join());
  assert.equal(store.connected.value, null);
  store.hovered.value = { position: 0, seq: 1 }; // of another sequence: as it is now
  assert.deepEqual([...store.connected.value.blocks], [0]);
  store.hovered.value = null;
});

test("an unfinished sequence is shown at the drawn record", () => {
  for (const index of [1, 2]) {
    show(0, index);
    assert.deepEqual([store.stageIndex.value, store.showsEarlierRecord.value], [index, false]);
  }
  show(1, 5); // runs, and was not computed in the last record
  assert.deepEqual([store.shownSeq.value, store.stageIndex.value], [1, 5]);
});

test("a sequence that ended uncomputed has no earlier record to show", () => {
  show(2, 5);
  assert.deepEqual([store.shownSeq.value, store.stageIndex.value, store.showsEarlierRecord.value], [2, 5, false]);
  assert.equal(store.sequenceView.value.released, true);
  settings.seq.value = null;
});
