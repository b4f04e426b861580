// Runs built by hand in blocks of two, for the tests of provenance and of the pool's motions.

import { TraceLog } from "../../static/js/core/log.js";
import { ENDED, header, MODEL, op, records, recordsOf } from "./log_builder.mjs";

export function logOf(steps, engine = {}, more = {}) {
  const log = new TraceLog(header(engine, more));
  for (const bytes of recordsOf(steps)) log.append(bytes);
  return log;
}

/** The log of `records` in log_builder.mjs, with its arrays. */
export function wholeLog() {
  const log = new TraceLog(header());
  for (const [record, capture] of records()) log.append(record, capture);
  return log;
}

const submit = (...ops) => ({ kind: "submit", ops });

/** seq 0 (tokens 1 2 3) is computed in blocks 0 and 1, of which the first is cached; `more` of the same record. */
const begun = (...more) => [
  submit(op.submit(0, [1, 2, 3])),
  {
    batch: [op.entry(0, "prefill", 0, [1, 2, 3])],
    ops: [
      op.admit(0),
      op.allocate(0, 0, 0),
      op.allocate(0, 1, 1),
      op.cache(0, 0, 0, "h0", [1, 2]),
      op.write(0, 0, 3),
      ...more,
    ],
  },
];

/** seq 1 (5 6 8) needs both blocks of a pool of two: block 0 is evicted for it. `more`: after it is admitted. */
const takesBoth = (...more) => [
  submit(op.submit(1, [5, 6, 8])),
  {
    batch: [op.entry(1, "prefill", 0, [5, 6, 8])],
    ops: [
      op.admit(1),
      op.allocate(1, 1, 0),
      op.evict(0, "h0"),
      op.allocate(1, 0, 1),
      op.write(1, 0, 3),
      op.sample(1),
      ...more,
    ],
  },
];

/** Window 3: seq 0 (five tokens) leaves block 0 behind, seq 1 begins alike and gives its hit back at once; seq 0 is forked, and all go. */
export const released = () =>
  logOf([
    submit(op.submit(0, [1, 2, 3, 4, 5]), op.submit(1, [1, 2, 9])),
    {
      batch: [op.entry(0, "prefill", 0, [1, 2, 3, 4, 5])],
      ops: [
        op.admit(0),
        ...[0, 1, 2].map((block) => op.allocate(0, block, block)),
        op.cache(0, 0, 0, "h0", [1, 2]),
        op.write(0, 0, 5),
        op.release(0, 0, 0, "back"),
        op.sample(0),
        op.fork(0, 2),
      ],
    },
    {
      batch: [op.entry(1, "prefill", 2, [9])],
      ops: [
        op.admit(1, 2),
        op.share(1, 0, 0, true),
        op.allocate(1, 3, 1),
        op.write(1, 2, 1),
        op.release(1, 0, 0, "back"),
        op.release(0, 1, 1),
        op.release(2, 1, 1, "front"),
        op.free(1, 3, "front"),
        op.finish(1),
        op.free(0, 2),
        op.finish(0),
      ],
    },
  ]);

/** seq 0 (tokens 1 2 3) finishes; seq 1 (1 2 4) finds its first block in the cache and shares it, though seq 0 is gone. */
export const reused = () =>
  logOf([
    ...begun(op.sample(0), ...ENDED),
    submit(op.submit(1, [1, 2, 4])),
    {
      batch: [op.entry(1, "prefill", 2, [4])],
      ops: [
        { type: "lookup", seq_id: 1, verdict: "hit", num_tokens: 3, num_hit_tokens: 2, block_ids: [0] },
        op.admit(1, 2),
        op.share(1, 0, 0, true),
        op.allocate(1, 1, 1),
        op.write(1, 2, 1),
        op.sample(1),
      ],
    },
  ]);

/** The same while seq 0 still runs: block 0 is shared by both. */
export const shared = () =>
  logOf([
    ...begun(op.sample(0)),
    submit(op.submit(1, [1, 2, 4])),
    {
      batch: [op.entry(0, "decode", 3, [7]), op.entry(1, "prefill", 2, [4])],
      ops: [
        { type: "lookup", seq_id: 1, verdict: "hit", num_tokens: 3, num_hit_tokens: 2, block_ids: [0] },
        op.admit(1, 2),
        op.share(1, 0, 0, false),
        op.allocate(1, 2, 1),
        op.write(0, 3, 1),
        op.sample(0),
        op.write(1, 2, 1),
        op.sample(1),
      ],
    },
  ]);

/** A pool of two blocks: seq 0 finishes with block 0 cached; seq 1 (5 6 8) needs both, so block 0 is evicted for it. */
export const evicted = () =>
  logOf(
    [
      submit(op.submit(0, [1, 2])),
      {
        batch: [op.entry(0, "prefill", 0, [1, 2])],
        ops: [
          op.admit(0),
          op.allocate(0, 0, 0),
          op.cache(0, 0, 0, "h0", [1, 2]),
          op.write(0, 0, 2),
          op.sample(0),
          op.free(0, 0, "back"),
          op.finish(0),
        ],
      },
      ...takesBoth(),
    ],
    { num_blocks: 2 },
  );

/**
 * A pool of two blocks and a store outside it: seq 0 (1 2 3) stores block 0 and finishes; seq 1 (5 6 8) needs both blocks; seq 2 (1 2 4)
 * begins as seq 0 did, and loads that block into block 1.
 */
export const loaded = () => {
  const [submitted, first] = begun(op.store(0, "h0", "cpu"), op.sample(0), ...ENDED);
  const [next, second] = takesBoth(op.free(1, 0, "front"), op.free(1, 1, "front"), op.finish(1));
  return logOf(
    [
      submitted,
      { ...first, tiers: [{ medium: "cpu", num_blocks: 1, num_bytes: 32, max_bytes: 128 }] },
      next,
      { ...second, ops: [op.lookupExternal(1, "miss", 2, []), ...second.ops] },
      submit(op.submit(2, [1, 2, 4])),
      {
        batch: [op.entry(2, "prefill", 2, [4])],
        ops: [
          { type: "lookup", seq_id: 2, verdict: "miss", num_tokens: 3, num_hit_tokens: 0, block_ids: [] },
          op.lookupExternal(2, "load", 2, ["cpu"], 0.0012, 0.009),
          { ...op.admit(2), num_external_tokens: 2 },
          { ...op.allocate(2, 1, 0), reason: "load" },
          op.load(2, 1, 0, "h0", "cpu"),
          { ...op.allocate(2, 0, 1), reason: "admission" },
          op.cache(2, 1, 0, "h0", [1, 2]),
          op.write(2, 2, 1),
          op.sample(2),
        ],
      },
    ],
    { num_blocks: 2 },
  );
};

/** seq 0 forks after its prompt of three; its next write copies the half-full tail, seq 1 then writes in place. */
export const forked = () =>
  logOf([
    submit(op.submit(0, [1, 2, 3])),
    {
      batch: [op.entry(0, "prefill", 0, [1, 2, 3])],
      ops: [
        op.admit(0),
        op.allocate(0, 0, 0),
        op.allocate(0, 1, 1),
        op.write(0, 0, 3),
        op.fork(0, 1),
        op.sample(0),
        op.sample(1, 8),
      ],
    },
    {
      batch: [op.entry(0, "decode", 3, [7]), op.entry(1, "decode", 3, [8])],
      ops: [
        op.allocate(0, 2, 1),
        op.copy(0, 1, 1, 2),
        op.write(0, 3, 1),
        op.write(1, 3, 1),
        op.sample(0),
        op.sample(1),
      ],
    },
  ]);

/** Two sequences of two tokens in two blocks; the first needs a third slot, so the second is preempted and its block taken. */
export const preempted = () =>
  logOf(
    [
      submit(op.submit(0, [1, 2]), op.submit(1, [3, 4])),
      {
        batch: [op.entry(0, "prefill", 0, [1, 2]), op.entry(1, "prefill", 0, [3, 4])],
        ops: [
          op.admit(0),
          op.allocate(0, 0, 0),
          op.admit(1),
          op.allocate(1, 1, 0),
          op.write(0, 0, 2),
          op.write(1, 0, 2),
          op.sample(0),
          op.sample(1),
        ],
      },
      {
        batch: [op.entry(0, "decode", 2, [7])],
        ops: [op.free(1, 1, "front"), op.preempt(1, 0, 2), op.allocate(0, 1, 1), op.write(0, 2, 1), op.sample(0)],
      },
    ],
    { num_blocks: 2 },
  );

/**
 * Two kinds of layers, 1 and 3 with full attention (blocks 0 to 3), 0 and 2 with a window of 2 (blocks 4 to 6): seq 0 (five tokens)
 * is computed, lets go of what fell out of the window, goes on for a token and finishes; seq 1 begins alike and hits behind the window.
 */
export const hybrid = () =>
  logOf(
    [
      submit(op.submit(0, [1, 2, 3, 4, 5])),
      {
        batch: [op.entry(0, "prefill", 0, [1, 2, 3, 4, 5])],
        ops: [
          op.admit(0),
          ...[0, 1, 2].map((block) => op.allocate(0, block, block)),
          ...[4, 5, 6].map((block, logical) => op.allocate(0, block, logical)),
          op.write(0, 0, 5),
          op.cache(0, 0, 0, "f0", [1, 2]),
          op.cache(0, 1, 1, "f1", [3, 4]),
          op.cache(0, 4, 0, "w0", [1, 2]),
          op.cache(0, 5, 1, "w1", [3, 4]),
          op.release(0, 4, 0, "back"),
          op.sample(0, 6),
        ],
      },
      {
        batch: [op.entry(0, "decode", 5, [6])],
        ops: [op.write(0, 5, 1), op.release(0, 5, 1, "back"), op.sample(0, 7)],
      },
      submit(op.submit(1, [1, 2, 3, 4, 9])),
      {
        batch: [op.entry(1, "prefill", 4, [9])],
        ops: [
          op.admit(1, 4),
          op.share(1, 0, 0, false),
          op.share(1, 1, 1, false),
          op.share(1, 5, 1, true),
          op.allocate(1, 3, 2),
          op.evict(4, "w0"),
          op.allocate(1, 4, 2),
          op.write(1, 4, 1),
          op.free(0, 2, "front"),
          op.free(0, 1),
          op.free(0, 0),
          op.free(0, 6, "front"),
          op.finish(0),
          op.sample(1, 8),
        ],
      },
    ],
    { num_blocks: 4 },
    {
      model: { ...MODEL, num_layers: 4, sliding_windows: [2, null, 2, null] },
      kv_bytes_per_token: 64,
      block_groups: [
        { layers: [1, 3], first_block: 0, num_blocks: 4, window: null, sinks: 0, kv_bytes_per_token: 32 },
        { layers: [0, 2], first_block: 4, num_blocks: 3, window: 2, sinks: 0, kv_bytes_per_token: 32 },
      ],
    },
  );
