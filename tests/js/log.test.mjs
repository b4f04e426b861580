import assert from "node:assert/strict";
import { test } from "node:test";
import "./words.mjs";

import { decode } from "../../static/js/core/codec.js";
import { TraceLog } from "../../static/js/core/log.js";
import { kvTerms, slotOf } from "../../static/js/core/metrics.js";
import { sequenceViewAt, vectorOf } from "../../static/js/core/sequence_view.js";
import { kvHeadOf } from "../../static/js/core/shape.js";
import { apply, initialState, TraceStateError } from "../../static/js/core/state.js";
import { sentencesOf } from "../../static/js/i18n/sentence.js";
import { encode } from "../../static/vendor/msgpack/encode.mjs";
import { wholeLog } from "./histories.mjs";
import { bytes, header, MEMORY, op, records } from "./log_builder.mjs";

/** A log of 300 records over a pool of 64 blocks: one sequence after another, a token a record. */
function longLog() {
  const log = new TraceLog(header({ num_blocks: 64, block_size: 2 }));
  const free = Array.from({ length: 64 }, (_, i) => i);
  let seq = null;
  for (let index = 0; index < 300; index++) {
    const ops = [];
    if (!seq) {
      seq = { id: index, count: 0, table: [] };
      ops.push(op.submit(index, [1], 9), op.admit(index));
    }
    if (seq.count % 2 === 0) {
      seq.table.push(free.shift());
      ops.push(op.allocate(seq.id, seq.table.at(-1), seq.table.length - 1));
    }
    ops.push(op.write(seq.id, seq.count++, 1), op.sample(seq.id, 5));
    const outputs = [{ seq_id: seq.id, token_id: 5, token_bytes: bytes("月"), text: "月", logprob: -0.1, top: [] }];
    if (seq.count === 17) {
      for (const block of seq.table.toReversed()) {
        free.unshift(block);
        ops.push(op.free(seq.id, block, "front"));
      }
      ops.push(op.finish(seq.id));
      seq = null;
    }
    log.append(encode({ index, kind: "step", step: index + 1, ops, outputs, timing: { at: index }, memory: MEMORY }));
  }
  return log;
}

test("states that share their blocks are as independent as copies: any order of looking gives what folding gives", () => {
  const log = longLog();
  const plain = (state) => JSON.stringify({ ...state, sequences: [...state.sequences] });
  const state = initialState(log.header);
  const folded = [plain(state), ...log.records.map((record) => plain(apply(state, record)))];
  const order = Array.from({ length: 600 }, (_, i) => (i * 7919) % 301); // back and forth through all 301 states
  for (const i of order) assert.equal(plain(log.stateAt(i - 1)), folded[i], `state ${i - 1}`);
});

test("a gap in the log is an error, and nothing is appended", () => {
  const log = new TraceLog(header());
  assert.throws(() => log.append(records()[1][0]), TraceStateError);
  assert.equal(log.length, 0);
});

test("a contradicting record leaves no effect", () => {
  const log = new TraceLog(header());
  for (const [record, capture] of records().slice(0, 2)) log.append(record, capture);
  const before = JSON.stringify(wholeLog().stateAt(1), plainMap);
  const [record] = records()[2];
  const bad = decode(record);
  bad.ops.push({ type: "free", seq_id: 99, block_id: 0, to: "back" });
  assert.throws(() => log.append(encode(bad)), TraceStateError);
  assert.equal(log.length, 2);
  assert.equal(JSON.stringify(log.stateAt(1), plainMap), before);
  log.append(record); // and the one that belongs there still fits
});

const plainMap = (_, value) => (value instanceof Map ? [...value] : value);

test("quantized elements are whole numbers of bytes: the scale of each vector is a term of its own", () => {
  const model = { num_layers: 6, num_kv_heads: 2, head_dim: 32, v_head_dim: 32 };
  const terms = (kv_cache_dtype, kv_bytes_per_token) => {
    const { element_bytes, scale_bytes } = kvTerms({ model, kv_bytes_per_token, engine: { kv_cache_dtype } });
    return [element_bytes, scale_bytes];
  };
  assert.deepEqual(terms("auto", 6 * 2 * 64 * 4), [4, 0]);
  assert.deepEqual(terms("int8", 6 * 2 * 2 * (32 + 2)), [1, 2]);
  assert.deepEqual(terms("int4", 6 * 2 * 2 * (16 + 4)), [0.5, 4]);
});

test("layers of two shapes: bytes are a sum over them, and each query head reads a KV head of its own layer", () => {
  // biome-ignore format: a row a layer
  const shapes = [[2, 8, 8], [1, 32, 16], [2, 8, 8]];
  const model = { num_layers: 3, num_heads: 4, num_kv_heads: 2, head_dim: 8, v_head_dim: 8, layer_shapes: shapes };
  const of = (kv_cache_dtype, kv_bytes_per_token) => kvTerms({ model, kv_bytes_per_token, engine: { kv_cache_dtype } });
  assert.equal(of("auto", (2 * 32 + 48) * 4).element_bytes, 4);
  assert.equal(of("int8", 2 * 2 * 2 * (8 + 2) + 32 + 16 + 2 * 2).element_bytes, 1);
  assert.deepEqual(
    of("auto", 448).kinds.map((kind) => [kind.num_layers, kind.head_dim]),
    [
      [2, 8],
      [1, 32],
    ],
  );
  assert.deepEqual(
    [0, 1, 2, 3].map((head) => [kvHeadOf(model, 0, head), kvHeadOf(model, 1, head)]),
    [
      [0, 0],
      [0, 0],
      [1, 0],
      [1, 0],
    ],
  );
});

test("a layer of latents keeps one vector of a token, and less than the keys and values that come of it", () => {
  const model = { num_layers: 6, num_kv_heads: 16, head_dim: 192, v_head_dim: 128, latent_dim: 576 };
  const terms = (kv_cache_dtype, kv_bytes_per_token) => {
    const k = kvTerms({ model, kv_bytes_per_token, engine: { kv_cache_dtype } });
    return [k.element_bytes, k.expanded_bytes];
  };
  assert.deepEqual(terms("auto", 6 * 576 * 2), [2, 6 * 16 * 320 * 2]);
  assert.deepEqual(terms("int8", 6 * (576 + 2)), [1, 6 * 16 * (320 + 2 * 2)]);
});

test("slot = block_id * block_size + position mod block_size", () => {
  assert.deepEqual(slotOf([7, 3], 4, 6), { block: 3, logical: 1, offset: 2, slot: 14 });
  assert.equal(slotOf([7], 4, 6), null);
});

test("vectors come from the record that wrote them; a query only from the record shown", () => {
  const log = wholeLog();
  const view = sequenceViewAt(log, 2, 0, 0, 1);
  assert.deepEqual([...vectorOf(view, "k", 4)], [4, -4]);
  assert.deepEqual([...vectorOf(view, "k", 5)], [5, -5]);
  assert.deepEqual([...vectorOf(view, "q", 5)], [5, 1]);
  assert.equal(vectorOf(view, "q", 4), null);
  assert.equal(vectorOf(view, "k", 6), null); // the sampled token: written a step later
});

test("the attention row of the query in flight covers every key it saw", () => {
  const { attention, query } = sequenceViewAt(wholeLog(), 2, 0, 0, 0);
  assert.equal(query, 5);
  assert.equal(attention.weights.length, 6);
  assert.ok(Math.abs(attention.weights.reduce((a, b) => a + b) - 1) < 1e-6);
});

test("the sentence of a decode step says which slot was written and that the new token's is not", () => {
  const sentences = sentencesOf(wholeLog(), 2, 0);
  const [key, values] = sentences[0];
  assert.equal(key, "sentence.decode");
  assert.deepEqual(
    { keys: values.keys, blocks: values.blocks, block: values.block, slot: values.slot },
    { keys: 6, blocks: 3, block: 2, slot: 1 },
  );
  assert.equal(sentences[1][0], "sentence.sampled_last");
  assert.equal(sentences[2][0], "op.finish.reason.length.short");
});

test("damaged bytes are a format error", () => {
  assert.throws(() => decode(Uint8Array.from([0xc1])), /not valid msgpack/);
});

test("content from the CPU store keeps its origin", () => {
  const log = new TraceLog(header({ swap_space: 4 }));
  for (const [record] of records().slice(0, 2)) log.append(record); // 5 tokens in blocks 0, 1, 2
  const step = (index, ops) =>
    log.append(encode({ index, kind: "step", step: index, ops, outputs: [], timing: { at: index }, memory: MEMORY }));
  const swap = (type, logical, block_id) => ({
    type,
    seq_id: 0,
    logical,
    block_id,
    cpu_block_id: logical,
    num_bytes: 1,
  });
  step(2, [
    ...[0, 1, 2].map((b) => swap("swap_out", b, b)),
    op.free(0, 2, "front"),
    op.free(0, 1, "front"),
    op.free(0, 0, "back"),
    { ...op.preempt(0, 9, 5), mode: "swap" },
  ]);
  assert.deepEqual(log.stateAt(2).free_queues, [[1, 2, 3, 0]]); // so that it comes back to other blocks
  const back = [1, 2, 3].flatMap((block, logical) => [op.allocate(0, block, logical), swap("swap_in", logical, block)]);
  step(3, [{ ...op.admit(0, 0, true), num_swapped_tokens: 5 }, ...back]);
  assert.deepEqual(log.slotOrigin(2 * 2 + 1, 3), { at: 3, record: 1, seq_id: 0, position: 3 }); // block 2 now holds logical block 1
});

test("an impossible model in a header, and a batch of an unsubmitted sequence, are refused", () => {
  const log = wholeLog();
  for (const num_layers of [0, 2 ** 40]) {
    const header = { ...log.header, model: { ...log.header.model, num_layers } };
    assert.throws(() => initialState(header), /model\.num_layers must be from 1 to 4096/);
  }
  const [first] = log.records;
  apply(initialState(log.header), first);
  assert.throws(
    () =>
      apply(initialState(log.header), { ...first, batch: [{ seq_id: 99, start: 0, token_ids: [], context_len: 0 }] }),
    /its batch has a sequence 99/,
  );
});
