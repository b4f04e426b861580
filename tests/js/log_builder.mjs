// A small log built by hand, as bytes: one request of five tokens in blocks of two, then decode steps.

import { ExtData } from "../../static/vendor/msgpack/ExtData.mjs";
import { encode } from "../../static/vendor/msgpack/encode.mjs";

export const MODEL = {
  name: "tiny",
  architecture: "LlamaForCausalLM",
  num_params: 1000,
  num_layers: 1,
  hidden_size: 4,
  intermediate_size: 8,
  num_heads: 2,
  num_kv_heads: 1,
  head_dim: 2,
  v_head_dim: 2,
  vocab_size: 10,
  max_position: 32,
  dtype: "float32",
  sliding_windows: [null],
};

export const bytes = (text) => new TextEncoder().encode(text);

/** An array extension of float32 values. */
export function floats(shape, values) {
  const data = new Uint8Array(2 + 4 * shape.length + 4 * values.length);
  const view = new DataView(data.buffer);
  data.set([2, shape.length]);
  shape.forEach((n, i) => view.setUint32(2 + 4 * i, n, true));
  values.forEach((value, i) => view.setFloat32(2 + 4 * shape.length + 4 * i, value, true));
  return new ExtData(1, data);
}

/** A header's bytes; `more`: fields of the header beside or instead of the usual ones. */
export function header(engine = {}, more = {}) {
  return encode({
    format: "kvtrace",
    version: 1,
    generator: "test",
    created: "2000-01-01T00:00:00Z",
    model: MODEL,
    tokenizer: { name: "tiny", vocab_size: 10, eos_token_ids: [0] },
    engine: { strategy: "paged", num_blocks: 4, block_size: 2, ...engine },
    kv_bytes_per_token: 2 * 1 * 1 * 2 * 4,
    machine: { device: "cpu", processor: "test", num_threads: 1, versions: {} },
    ...more,
  });
}

/** The figures of a record; what no test looks at. */
export const MEMORY = {
  num_blocks: 4,
  block_size: 2,
  blocks_held: 0,
  blocks_cached: 0,
  blocks_free: 4,
  tokens_held: 0,
  tokens_logical: 0,
  bytes_held: 0,
  bytes_used: 0,
  bytes_cached: 0,
};

/** [record bytes, capture bytes or null] of each record. The prompt is `春江潮水连`. */
export function records() {
  const prompt = Array.from("春江潮水连");
  const submit = {
    index: 0,
    kind: "submit",
    step: 0,
    ops: [{ ...op.submit(0, [1, 2, 3, 4, 5], 2), prompt_token_bytes: prompt.map(bytes) }],
    timing: { at: 1.0 },
    memory: MEMORY,
  };
  const prefill = {
    index: 1,
    kind: "step",
    step: 1,
    batch: [op.entry(0, "prefill", 0, [1, 2, 3, 4, 5])],
    ops: [
      { type: "lookup", seq_id: 0, verdict: "miss", num_tokens: 5, num_hit_tokens: 0, block_ids: [] },
      op.admit(0),
      ...[0, 1, 2].map((block) => op.allocate(0, block, block)),
      op.write(0, 0, 5),
      op.cache(0, 0, 0, "h0", [1, 2]),
      op.sample(0, 6),
    ],
    outputs: [{ seq_id: 0, token_id: 6, token_bytes: bytes("海").slice(0, 1), text: "", logprob: -0.5, top: [] }],
    timing: { at: 1.25, schedule: 0.01, prepare: 0.02, forward: 0.2, sample: 0.01 },
    memory: MEMORY,
    has_capture: true,
  };
  const decode = {
    index: 2,
    kind: "step",
    step: 2,
    batch: [op.entry(0, "decode", 5, [6])],
    ops: [op.write(0, 5, 1), op.sample(0), op.free(0, 2, "front"), ...ENDED],
    outputs: [{ seq_id: 0, token_id: 7, token_bytes: bytes("海").slice(1), text: "海", logprob: -1, top: [] }],
    timing: { at: 1.35, forward: 0.08 },
    memory: MEMORY,
    has_capture: true,
  };
  return [
    [encode(submit), null],
    [encode(prefill), capture(1, 5, 0)],
    [encode(decode), capture(2, 1, 5)],
  ];
}

/** K of position p is [p, -p], V [p, 0], Q of head h [p, h]; every key gets the same weight. */
function capture(index, count, start) {
  const positions = Array.from({ length: count }, (_, i) => start + i);
  const width = start + count;
  const rows = [0, 1].flatMap(() =>
    positions.flatMap((p) => Array.from({ length: width }, (_, key) => (key <= p ? 1 / (p + 1) : 0))),
  );
  return encode({
    index,
    dtype: "float32",
    layers: [
      {
        layer: 0,
        q: floats(
          [count, 2, 2],
          positions.flatMap((p) => [p, 0, p, 1]),
        ),
        k: floats(
          [count, 1, 2],
          positions.flatMap((p) => [p, -p]),
        ),
        v: floats(
          [count, 1, 2],
          positions.flatMap((p) => [p, 0]),
        ),
        rows: [
          { seq_id: 0, query_start: start, key_start: 0, heads: [0, 1], weights: floats([2, count, width], rows) },
        ],
      },
    ],
    omitted: "",
  });
}

/**
 * A log's records from their operations, as bytes: `steps` is a list of {ops, batch?, kind?, tiers?}. Outputs of `sample` operations and
 * the steps' numbers are filled in.
 */
export function recordsOf(steps) {
  let step = 0;
  return steps.map(({ ops, batch = [], kind = "step", tiers = [] }, index) => {
    if (kind === "step") step += 1;
    const outputs = ops
      .filter((op) => op.type === "sample")
      .map((op) => ({
        seq_id: op.seq_id,
        token_id: op.token_id,
        token_bytes: bytes("x"),
        text: "x",
        logprob: -1,
        top: [],
      }));
    return encode({ index, kind, step, batch, ops, outputs, tiers, timing: { at: index }, memory: MEMORY });
  });
}

/** Operations and batch entries by name, with what is usual filled in. */
export const op = {
  submit: (seq_id, tokens, max_tokens = 4) => ({
    type: "submit",
    seq_id,
    queue_position: 0,
    request_id: `r${seq_id}`,
    prompt_token_ids: tokens,
    prompt_token_bytes: tokens.map(() => bytes("a")),
    max_tokens,
  }),
  admit: (seq_id, num_cached_tokens = 0, resumed = false) => ({ type: "admit", seq_id, num_cached_tokens, resumed }),
  /** Tokens of a waiting sequence after its hits: `media`, of each block found; the two times in seconds. */
  lookupExternal: (seq_id, verdict, num_tokens, media, load_seconds = null, compute_seconds = null) => ({
    ...{ type: "lookup_external", seq_id, verdict, num_tokens, num_found_tokens: 2 * media.length, media },
    ...{ num_bytes: 32 * media.length, load_seconds, compute_seconds },
  }),
  allocate: (seq_id, block_id, logical) => ({ type: "allocate", seq_id, block_id, logical }),
  load: (seq_id, block_id, logical, hash, medium) => ({
    ...{ type: "load", seq_id, block_id, logical, block_hash: bytes(hash), medium, num_bytes: 32 },
  }),
  store: (block_id, hash, medium) => ({
    ...{ type: "store", block_id, block_hash: bytes(hash), medium, num_bytes: 32 },
  }),
  share: (seq_id, block_id, logical, revived) => ({ type: "share", seq_id, block_id, logical, revived }),
  cache: (seq_id, block_id, logical, hash, token_ids) => ({
    type: "cache",
    seq_id,
    block_id,
    logical,
    block_hash: bytes(hash),
    parent_hash: null,
    token_ids,
  }),
  evict: (block_id, hash) => ({ type: "evict", block_id, block_hash: bytes(hash) }),
  fork: (parent_seq_id, seq_id) => ({ type: "fork", parent_seq_id, seq_id, request_id: `r${seq_id}` }),
  copy: (seq_id, logical, src, dst) => ({ type: "copy", seq_id, logical, src, dst }),
  write: (seq_id, start, num_tokens) => ({ type: "write", seq_id, start, num_tokens }),
  sample: (seq_id, token_id = 7) => ({ type: "sample", seq_id, token_id }),
  free: (seq_id, block_id, to = null) => ({ type: "free", seq_id, block_id, to }),
  release: (seq_id, block_id, logical, to = null, reason = "window") => ({
    type: "release",
    seq_id,
    block_id,
    logical,
    reason,
    to,
  }),
  preempt: (seq_id, for_seq_id, num_computed_tokens) => ({
    type: "preempt",
    seq_id,
    for_seq_id,
    num_computed_tokens,
    queue_position: 0,
    mode: "recompute",
  }),
  finish: (seq_id, reason = "length") => ({ type: "finish", seq_id, reason }),
  entry: (seq_id, phase, start, token_ids) => ({
    seq_id,
    phase,
    start,
    token_ids,
    context_len: start + token_ids.length,
    samples: true,
  }),
};

/** seq 0 gives back blocks 1 and 0, of which the latter is cached, and finishes. */
export const ENDED = [op.free(0, 1, "front"), op.free(0, 0, "back"), op.finish(0)];

/** Records of one request of one token: its submission, then a step for each output, of which the last may finish it. */
export const oneRequest = (outputs, { finishes }) =>
  recordsOf([
    { kind: "submit", ops: [op.submit(0, [1], outputs)] },
    ...Array.from({ length: outputs }, (_, i) => ({
      batch: [op.entry(0, i ? "decode" : "prefill", i, [1])],
      ops: [
        ...(i === 0 ? [op.admit(0)] : []),
        ...(i % 2 === 0 ? [op.allocate(0, i / 2, i / 2)] : []),
        op.write(0, i, 1),
        op.sample(0),
        ...(finishes && i === outputs - 1 ? [op.free(0, 1, "front"), op.free(0, 0, "front"), op.finish(0)] : []),
      ],
    })),
  ]);
