// Origin of slots' content, through a store outside the pool: a golden trace, unchanged and as a run that
// found there what another one had stored.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { decode } from "../../static/js/core/codec.js";
import { parseTrace } from "../../static/js/core/file.js";
import { TraceLog } from "../../static/js/core/log.js";
import { encode } from "../../static/vendor/msgpack/encode.mjs";

const GOLDEN = new URL("../golden/outside.kvtrace", import.meta.url);

/** The golden log, with the operations of each record that are `kept`. */
function logWith(kept) {
  const { header, records } = parseTrace(readFileSync(GOLDEN));
  const log = new TraceLog(header);
  for (const bytes of records) {
    const record = decode(bytes);
    log.append(encode({ ...record, ops: record.ops.filter(kept) }));
  }
  return log;
}

/** Each slot of each block that was loaded: where it is said to come from, and the token that it holds. */
function loadedSlots(log) {
  return log.records.flatMap(({ index, ops }) =>
    ops.flatMap((op) => {
      if (op.type !== "load") return [];
      const { block_size: size, blocks } = log.stateAt(index);
      return blocks[op.block_id].token_ids.map((token, slot) => ({
        ...{ index, op, token, slot, size },
        origin: log.slotOrigin(op.block_id * size + slot, index),
      }));
    }),
  );
}

test("blocks stored and reloaded keep their first writer", () => {
  const log = logWith(() => true);
  const slots = loadedSlots(log);
  assert.equal(slots.length, 30 * 4); // loads of the golden trace · block_size
  for (const { index, op, token, origin } of slots) {
    assert.deepEqual(origin.loaded, { record: index, medium: op.medium, here: true });
    assert.ok(origin.record < index);
    assert.equal(log.stateAt(index).sequences.get(origin.seq_id).token_ids[origin.position], token);
    assert.ok(log.packedIndex(origin.record, origin.seq_id, origin.position) >= 0, "computed there");
  }
});

test("blocks stored by another run have no writer", () => {
  const log = logWith((op) => op.type !== "store");
  for (const { index, op, slot, size, origin } of loadedSlots(log)) {
    assert.deepEqual(origin.loaded, { record: index, medium: op.medium, here: false });
    assert.deepEqual([origin.record, origin.seq_id], [index, op.seq_id]);
    assert.equal(origin.position, op.logical * size + slot);
    assert.equal(log.packedIndex(origin.record, origin.seq_id, origin.position), -1);
  }
});
