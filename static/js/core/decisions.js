// Why an operation is in the log: what it says itself, with the numbers of the operations and the batch beside it. Pure.

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
  const why = op.reason ?? guessedReason(header, record, at);
  if (why === "copy") return { why, src: record.ops[at + 1]?.src, logical: op.logical };
  if (why === "swap_in") return { why, cpu_block_id: swapIn(record, op)?.cpu_block_id };
  if (why === "append") return { why, position: op.logical * header.engine.block_size };
  const entry = record.batch?.find((e) => e.seq_id === op.seq_id);
  if (!entry) return { why: "step" };
  const tokens = { start: entry.start, end: entry.start + entry.token_ids.length };
  if (why !== "admission" && why !== "resume") return { why, ...tokens };
  return { why, ...tokens, num_cached_tokens: admission(record, op.seq_id)?.num_cached_tokens ?? 0 };
}

/** What older logs, whose operations do not say their reasons, leave to be guessed from what stands beside them. */
function guessedReason(header, record, at) {
  const op = record.ops[at];
  const copy = record.ops[at + 1];
  if (copy?.type === "copy" && copy.dst === op.block_id) return "copy";
  if (swapIn(record, op)) return "swap_in";
  const entry = record.batch?.find((e) => e.seq_id === op.seq_id);
  if (!entry) return "step";
  const admit = admission(record, op.seq_id);
  if (admit) return admit.resumed ? "resume" : "admission";
  if (header.engine.strategy === "none") return "recompute";
  return entry.phase === "decode" ? "append" : "chunk";
}

const swapIn = (record, { seq_id: seq, block_id: block }) =>
  record.ops.find((o) => o.type === "swap_in" && o.seq_id === seq && o.block_id === block);

const admission = (record, seq) => record.ops.find((o) => o.type === "admit" && o.seq_id === seq);

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
  if (record.ops[at].reason) return record.ops[at].reason;
  const seq = record.ops[at].seq_id; // a log from before operations said their reasons
  for (const op of record.ops.slice(at + 1)) {
    if (op.seq_id !== seq) continue;
    if (op.type === "preempt") return op.mode === "swap" ? "swap" : "preempt";
    if (op.type === "finish" || op.type === "discard") return op.type;
  }
  return "window";
}
