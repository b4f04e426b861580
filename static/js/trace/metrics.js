// Figures derived from records: latencies of a sequence, KV bytes, the marks on the scrubber.

/**
 * Latencies of `seqId` as far as record `index`, seconds of engine time: what the steps took, without the pauses between
 * them (someone who steps by hand is not a slow model). `ttft`: the steps from its submission to the one that chose its
 * first token, that one included. `tpot`: the steps after that, divided by the tokens they chose. null while not defined.
 */
export function latencies(log, seqId, index) {
  const sequence = log.tail.sequences.get(seqId);
  if (!sequence) return { ttft: null, tpot: null, num_output_tokens: 0 };
  let worked = 0;
  let ttft = null;
  let last = null;
  let count = 0;
  for (let i = sequence.submitted_in + 1; i <= index; i++) {
    worked += stepSeconds(log.records[i]);
    for (const output of log.records[i].outputs ?? []) {
      if (output.seq_id !== seqId) continue;
      last = worked;
      ttft ??= worked;
      count += 1;
    }
  }
  return { ttft, tpot: count > 1 ? (last - ttft) / (count - 1) : null, num_output_tokens: count };
}

/** Seconds the engine worked in a record: schedule + prepare + forward + sample. */
export function stepSeconds(record) {
  const { schedule = 0, prepare = 0, forward = 0, sample = 0 } = record.timing;
  return schedule + prepare + forward + sample;
}

/**
 * The terms of the KV formula for a header: bytes per token = layers · kv_heads · (head_dim + v_head_dim) · bytes,
 * which is 2 · layers · kv_heads · head_dim · bytes when K and V are equally wide. `element_bytes` follows from the
 * header's own figure.
 */
export function kvTerms(header) {
  const { num_layers, num_kv_heads, head_dim, v_head_dim } = header.model;
  const elements = num_layers * num_kv_heads * (head_dim + v_head_dim);
  return {
    num_layers,
    num_kv_heads,
    head_dim,
    v_head_dim,
    element_bytes: header.kv_bytes_per_token / elements,
    bytes_per_token: header.kv_bytes_per_token,
  };
}

const MARKED = { submit: "submit", preempt: "preempt", finish: "finish", evict: "evict", share: "share", copy: "copy", fork: "copy" };

/** What the scrubber marks at a record: a set of `submit`, `prefill`, `share`, `preempt`, `evict`, `copy`, `finish`. */
export function marksOf(record) {
  const marks = new Set();
  for (const op of record.ops ?? []) if (MARKED[op.type]) marks.add(MARKED[op.type]);
  if ((record.batch ?? []).some((entry) => entry.phase === "prefill")) marks.add("prefill");
  return marks;
}

/** The block and slot of a position: slot = block_id · block_size + position mod block_size. Null without a block. */
export function slotOf(table, blockSize, position) {
  const logical = Math.floor(position / blockSize);
  const block = table?.[logical];
  if (block === undefined) return null;
  return { block, logical, offset: position % blockSize, slot: block * blockSize + (position % blockSize) };
}
