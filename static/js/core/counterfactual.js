// What other reservations would have cost for the same requests: derived from the log, none of it happened. Pure.

import { bytesOfBlock, capacityBytes, heldIn } from "./groups.js";
import { memoryFigures } from "./state.js";

/** @typedef {NonNullable<ReturnType<typeof counterfactual>>} Counterfactual */

/** Blocks of this size stand for paging where the run itself did not page (vLLM's default). */
export const USUAL_BLOCK = 16;

/**
 * The running requests of `state`, had each been given `max_model_len` slots in one piece when it was admitted:
 *
 * A slot is room for one token in all layers; where kinds of layers have pools of their own, their bytes are counted
 * in such slots.
 *
 * - `slots_each`: max_model_len; `pool_slots`: num_blocks · block_size of this run's pool
 * - `requests`: for each running sequence `seq_id`, `slots` reserved in all three ways and `computed`, the tokens that
 *   fill them: `contiguous` = max_model_len, `limit` = prompt + max_tokens (what it may at most come to), `paged` = the
 *   blocks in its tables, where this run does not page ⌈computed / B⌉ · B
 * - `contiguous_slots`, `limit_slots`, `paged_slots`: their sums. Paged is what this run holds where it pages (shared
 *   blocks count once), else the sum over blocks of USUAL_BLOCK
 * - `fit`: ⌊pool_slots / max_model_len⌋ requests fit at all, added over the instances; `unfit`: how many of the running
 *   ones would not
 *
 * Null where the header does not say max_model_len.
 * @param {import("./trace.js").Header} header @param {import("./state.js").State} state
 */
export function counterfactual(header, state) {
  const { strategy } = header.engine;
  const each = Number(header.engine.max_model_len ?? 0);
  if (!each) return null;
  const { block_size } = state;
  const pages = strategy === "paged";
  const size = pages ? block_size : USUAL_BLOCK;
  const perToken = header.kv_bytes_per_token;
  /** @param {import("./state.js").Sequence} seq */
  const inTables = (seq) =>
    seq.block_tables.reduce(
      (sum, table, group) => sum + heldIn(table).length * bytesOfBlock(state.block_groups[group], block_size),
      0,
    ) / perToken;
  const requests = running(state).map((seq) => {
    const id = seq.seq_id;
    const computed = seq.num_computed_tokens;
    const limit = Math.min(seq.num_prompt_tokens + seq.max_tokens, each);
    return {
      seq_id: id,
      computed,
      contiguous: each,
      limit,
      paged: pages ? inTables(seq) : Math.ceil(computed / size) * size,
    };
  });
  /** @param {keyof typeof requests[0]} name */
  const sum = (name) => requests.reduce((total, request) => total + request[name], 0);
  const poolSlots = capacityBytes(state.block_groups, block_size) / perToken;
  let fit = 0; // none lies in the pools of two instances
  for (const instance of new Set(state.block_groups.map((group) => group.instance))) {
    const pools = state.block_groups.filter((group) => group.instance === instance);
    fit += Math.floor(capacityBytes(pools, block_size) / perToken / each);
  }
  return {
    slots_each: each,
    block_size: size,
    pool_slots: poolSlots,
    requests,
    contiguous_slots: sum("contiguous"),
    limit_slots: sum("limit"),
    paged_slots: pages ? memoryFigures(state).bytes_held / perToken : sum("paged"),
    computed_slots: sum("computed"),
    fit,
    unfit: Math.max(0, requests.length - fit),
  };
}

/** @param {import("./state.js").State} state */
const running = (state) => state.running.flatMap((id) => state.sequences.get(id) ?? []);
