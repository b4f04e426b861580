// Links shared by several provenance chains: slot, block, table, bytes, request. Pure.

import { groupOf, hasSiblings, isOfStates } from "../groups.js";
import { tokenLabels } from "../labels.js";
import { kvTerms } from "../metrics.js";
import { sequenceOf } from "../operation_kinds.js";

/** @import {Sequence} from "../state_access.js" */
/** @import {At, LinkOf} from "./types.js" */

/**
 * Return the group fields of a link: its layers, if there is more than one group.
 * @param {{log: At["log"]}} at
 * @param {number} group
 */
export const inGroup = ({ log }, group) => (hasSiblings(log.groups, group) ? { layers: log.groups[group].layers } : {});

/** @param {Sequence} seq @param {number} position */
export const token = (seq, position) => ({
  seq: seq.seq_id,
  position,
  label: tokenLabels(seq.token_bytes)[position],
  generated: position >= seq.num_prompt_tokens,
});

/** @param {number} record @returns {{go?: number}} */
export const goTo = (record) => (record >= 0 ? { go: record } : {});

/**
 * @param {At} at @param {number} block @param {number} offset @param {number | null} position
 * @returns {LinkOf<"slot">}
 */
export function slotLink(at, block, offset, position) {
  const size = at.state.block_size;
  return {
    kind: "slot",
    fidelity: "derived",
    slot: block * size + offset,
    block,
    size,
    offset,
    position,
    select: { block, offset },
  };
}

/**
 * @param {At} at @param {number} seq @param {number} logical @param {number} block @param {boolean} held
 * @returns {LinkOf<"table">}
 */
export function tableLink(at, seq, logical, block, held) {
  const { state } = at;
  const from = logical * state.block_size;
  return {
    kind: "table",
    fidelity: "captured",
    ...inGroup(at, groupOf(state.block_groups, block)),
    seq,
    logical,
    block,
    held,
    from,
    to: from + state.block_size - 1,
    select: { seq },
  };
}

/** @param {At} at @param {number} id @returns {LinkOf<"block">} */
export function blockLink(at, id) {
  const block = at.state.blocks[id];
  const group = groupOf(at.state.block_groups, id);
  const place = at.state.free_queues[group].indexOf(id) + 1;
  const { ref_count, block_hash: hash, token_ids } = block;
  return {
    kind: "block",
    fidelity: "captured",
    ...inGroup(at, group),
    block: id,
    ref_count,
    hash,
    filled: token_ids.length,
    size: isOfStates(at.state.block_groups[group]) ? 0 : at.state.block_size,
    place: place || null,
    select: { block: id },
  };
}

/**
 * Return the sequences whose table contains the block, and its index there: [{seq, logical}].
 * @param {{state: At["state"]}} at
 * @param {number} block
 */
export function ownersOf({ state }, block) {
  const found = [];
  const group = groupOf(state.block_groups, block);
  for (const seq of state.sequences.values()) {
    const logical = seq.block_tables[group].indexOf(block);
    if (logical >= 0) found.push({ seq: seq.seq_id, logical });
  }
  return found;
}

/**
 * Return the link for the bytes of `slots` slots of a block group, or of all layers. For a group with states, `slots`
 * counts states.
 * @param {At} at
 * @param {number} slots
 * @param {number} [group]
 * @returns {LinkOf<"bytes"> | LinkOf<"state">}
 */
export function bytesLink(at, slots, group = -1) {
  const each = at.log.groups[group]?.state_bytes ?? 0;
  if (each) {
    const states = Math.ceil(slots / at.state.block_size);
    return { kind: "state", fidelity: "derived", states, each, bytes: states * each, select: { figure: "used" } };
  }
  const terms = kvTerms(at.log.header, hasSiblings(at.log.groups, group) ? at.log.groups[group] : null);
  return {
    kind: "bytes",
    fidelity: "derived",
    slots,
    ...terms,
    per_layer: (terms.bytes_per_token / terms.num_layers) * slots,
    bytes: terms.bytes_per_token * slots,
    select: { figure: "token" },
  };
}

/** @param {Sequence} seq @returns {LinkOf<"request">} */
export function requestLink(seq) {
  const { seq_id, request_id, num_prompt_tokens, max_tokens, submitted_in } = seq;
  return {
    kind: "request",
    fidelity: "captured",
    seq: seq_id,
    request_id,
    num_prompt_tokens,
    max_tokens,
    select: { seq: seq_id },
    go: submitted_in,
  };
}

/**
 * Return the link for the hash that a block got in a record.
 * @param {import("../trace.js").Cache} op
 * @param {number} record
 * @returns {LinkOf<"cached">}
 */
export const cachedLink = (op, record) => ({
  kind: "cached",
  fidelity: "captured",
  hash: op.block_hash,
  parent: op.parent_hash,
  seq: op.seq_id,
  ...goTo(record),
});

/** @param {import("../history.js").Event} event @returns {import("./types.js").LifeEvent} */
export const lifeEvent = ({ record, at, op, from, to }) => ({
  record,
  at,
  type: op.type,
  seq: sequenceOf(op),
  from,
  to,
});
