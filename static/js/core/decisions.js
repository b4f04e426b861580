// Why an operation is in the log, from the operations around it and the batch of its record. Pure.

/**
 * Why the `allocate` at place `at` of `record` was made: `{why, …numbers}`.
 *
 * - `copy`: the sequence was about to write to `src`, which others hold too
 * - `swap_in`: the content of `cpu_block_id` comes back
 * - `admission`, `resume`: the sequence was admitted (again) and gets room for the tokens [start, end) of this step
 * - `append`: the token at `position` is the first of a new block
 * - `chunk`: the next chunk of its prompt, tokens [start, end)
 * - `recompute`: strategy `none` computes all tokens [start, end) again in every step
 * - `step`: none of these can be told from the log
 */
export function allocationReason(header, record, at) {
  const op = record.ops[at];
  const copy = record.ops[at + 1];
  if (copy?.type === "copy" && copy.dst === op.block_id) return { why: "copy", src: copy.src, logical: copy.logical };
  const back = record.ops.find((o) => o.type === "swap_in" && o.seq_id === op.seq_id && o.block_id === op.block_id);
  if (back) return { why: "swap_in", cpu_block_id: back.cpu_block_id };
  const entry = record.batch?.find((e) => e.seq_id === op.seq_id);
  if (!entry) return { why: "step" };
  const start = entry.start;
  const end = entry.start + entry.token_ids.length;
  const admit = record.ops.find((o) => o.type === "admit" && o.seq_id === op.seq_id);
  if (admit)
    return { why: admit.resumed ? "resume" : "admission", start, end, num_cached_tokens: admit.num_cached_tokens };
  if (header.engine.strategy === "none") return { why: "recompute", start, end };
  if (entry.phase === "decode") return { why: "append", position: op.logical * header.engine.block_size };
  return { why: "chunk", start, end };
}

/** The eviction that made room for the `allocate` at place `at` of `record`: {at, op}, or null when the block was empty. */
export function evictionBefore(record, at) {
  const block = record.ops[at].block_id;
  for (let i = at - 1; i >= 0; i--) {
    const op = record.ops[i];
    if (op.type === "evict" && op.block_id === block) return { at: i, op };
    if (op.type === "allocate" && op.block_id === block) return null;
  }
  return null;
}

/**
 * Why a block was given back by the `free` or `release` at place `at` of `record`: `preempt`, `swap`, `finish`, `discard`,
 * `window` or `policy`.
 */
export function freeReason(record, at) {
  if (record.ops[at].type === "release") return record.ops[at].reason;
  const seq = record.ops[at].seq_id;
  for (const op of record.ops.slice(at + 1)) {
    if (op.seq_id !== seq) continue;
    if (op.type === "preempt") return op.mode === "swap" ? "swap" : "preempt";
    if (op.type === "finish" || op.type === "discard") return op.type;
  }
  return "window";
}
