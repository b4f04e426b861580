// Memory that other schemes of reservation would have needed for the same requests, calculated from the log. Pure.

import { bytesOfBlock, capacityBytes, heldIn, isOfStates } from "./groups.js";
import { memoryFigures } from "./state.js";

/** @import {State} from "./state_access.js" */

/** @typedef {NonNullable<ReturnType<typeof counterfactual>>} Counterfactual */

/** Block size assumed for paging if the run itself did not page (vLLM's default). */
const USUAL_BLOCK = 16;

/**
 * Return the memory of `state`'s running requests if each had been given `max_model_len` contiguous slots at its
 * admission.
 *
 * A slot holds one token in all layers; if kinds of layers have separate pools, their bytes are converted to slots.
 *
 * - `slots_each`: max_model_len; `pool_slots`: num_blocks · block_size of this run's pool
 * - `requests`: for each running sequence, its `computed` tokens and the slots that each of three schemes reserves:
 *   `contiguous` = max_model_len, `limit` = prompt + max_tokens (its maximum length), `paged` = the blocks in its
 *   tables, or ⌈computed / B⌉ · B if this run does not page
 * - `contiguous_slots`, `limit_slots`, `paged_slots`: their sums. Paged is the memory held if this run pages (shared
 *   blocks count once), else the sum over blocks of USUAL_BLOCK
 * - `fit`: ⌊pool_slots / max_model_len⌋, the requests that fit, summed over instances; `unfit`: running requests that
 *   would not
 *
 * Null if the header lacks max_model_len, or if layers have states, which exist only with paged blocks.
 * @param {import("./trace.js").Header} header @param {State} state
 */
export function counterfactual(header, state) {
  const { strategy } = header.engine;
  const each = Number(header.engine.max_model_len ?? 0);
  if (!each || state.block_groups.some(isOfStates)) return null;
  const { block_size } = state;
  const pages = strategy === "paged";
  const size = pages ? block_size : USUAL_BLOCK;
  const perToken = header.kv_bytes_per_token;
  /** @param {import("./state_access.js").Sequence} seq */
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
  let fit = 0; // no sequence spans the pools of two instances
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

/** @param {State} state */
const running = (state) => state.running.flatMap((id) => state.sequences.get(id) ?? []);
