// Effects of operations on the tokens of a sequence, and on their keys and values. Mirrors
// engine/trace/operation_effects.py: same rules, same errors.

import { isOfStates, RELEASED } from "./groups.js";
import { ownGroups, ownTables } from "./instances.js";
import { UNITS_PER_SLOT } from "./limits.js";
import { blockOf, expect, own, sequenceOf } from "./state_access.js";

/**
 * @typedef {"write" | "choose" | "sample" | "draft" | "verify" | "take_back" | "forget" | "keep" | "discard"} Name
 * @type {Pick<import("./state_operations.js").Operations, Name>}
 */
export const TOKENS = {
  write(state, op, _index, { drafts }, budget) {
    const sequence = sequenceOf(state, op.seq_id);
    const { start } = op;
    const end = start + op.num_tokens;
    expect(sequence.num_computed_tokens === start, `sequence ${op.seq_id} has computed another number of tokens`);
    const tokens = sequence.token_ids;
    const drafted = (end > tokens.length && drafts.get(op.seq_id)) || [];
    expect(
      end >= start && end <= tokens.length + drafted.length,
      `sequence ${op.seq_id} has ${tokens.length} tokens, but not all of [${start}, ${end})`,
    );
    const tables = ownTables(state, sequence);
    budget.spend(UNITS_PER_SLOT * op.num_tokens * tables.length);
    const groups = ownGroups(state.block_groups, sequence.instance);
    for (const [i, table] of tables.entries())
      for (let position = start; position < end; position++) {
        const logical = Math.floor(position / state.block_size);
        if (table[logical] === RELEASED && isOfStates(state.block_groups[groups[i]])) continue;
        expect(table[logical] !== RELEASED, `logical block ${logical} is released`);
        const filled = own(state, blockOf(state, table[logical]), "token_ids");
        const slot = position % state.block_size;
        expect(slot <= filled.length, `slot ${slot} of block ${table[logical]} would leave a hole`);
        filled[slot] = position < tokens.length ? tokens[position] : drafted[position - tokens.length];
      }
    sequence.num_computed_tokens = end;
  },

  choose(state, op) {
    const sequence = sequenceOf(state, op.seq_id);
    expect(op.position >= sequence.token_ids.length, `position ${op.position} has its token already`);
    const chosen = own(state, sequence, "chosen");
    let at = chosen.length; // usually appended in ascending order
    while (at > 0 && chosen[at - 1][0] >= op.position) at--;
    chosen.splice(at, chosen[at]?.[0] === op.position ? 1 : 0, [op.position, op.token_id]);
  },

  sample(state, op, _index, outputs) {
    const sequence = sequenceOf(state, op.seq_id);
    if (sequence.chosen[0]?.[0] === sequence.token_ids.length) {
      const [, tokenId] = sequence.chosen[0];
      own(state, sequence, "chosen").shift();
      expect(op.token_id === tokenId, `token ${tokenId} was chosen for this position`);
    }
    const output = outputs.take(op.seq_id, op.token_id);
    expect(output !== undefined, `no output of sequence ${op.seq_id} holds token ${op.token_id}`);
    own(state, sequence, "token_ids").push(op.token_id);
    own(state, sequence, "token_bytes").push(output.token_bytes);
    sequence.cumulative_logprob += output.logprob;
  },

  draft(state, op, _index, { drafts }) {
    const running = sequenceOf(state, op.seq_id).status === "running";
    expect(running && !drafts.has(op.seq_id), `sequence ${op.seq_id} is not running or has drafts already`);
    expect(op.token_ids.length === op.token_bytes.length, "token_ids and token_bytes have different lengths");
    drafts.set(op.seq_id, Array.from(op.token_ids));
  },

  verify(state, op, _index, { drafts: all }) {
    const drafts = all.get(op.seq_id) ?? [];
    const { num_drafted: drafted, num_accepted: accepted } = op;
    expect(drafted === drafts.length, `sequence ${op.seq_id} has ${drafts.length} drafts`);
    expect(accepted >= 0 && accepted <= drafted, `${accepted} of ${drafted} drafts cannot be accepted`);
    const { token_ids: tokens, num_computed_tokens: computed } = sequenceOf(state, op.seq_id);
    const first = computed - drafted;
    expect(
      first >= 0 && drafts.slice(0, accepted).every((id, i) => tokens[first + i] === id),
      `sequence ${op.seq_id} did not continue with its drafts`,
    );
  },

  take_back(state, op) {
    const sequence = sequenceOf(state, op.seq_id);
    const { block_size: size } = state;
    const { start, num_tokens: count } = op;
    expect(
      count === sequence.num_computed_tokens - start && count > 0 && start > 0 && start <= sequence.token_ids.length,
      `${count} tokens cannot be taken back`,
    );
    for (const table of ownTables(state, sequence))
      for (let logical = Math.floor(start / size); logical < table.length; logical++) {
        const block = blockOf(state, table[logical]);
        const remaining = Math.max(start - logical * size, 0);
        if (block.token_ids.length <= remaining) continue;
        expect(block.ref_count === 1 && block.block_hash === null, `block ${block.block_id} is shared or cached`);
        own(state, block, "token_ids").length = remaining;
      }
    sequence.num_computed_tokens = start;
  },

  forget(state, op) {
    const sequence = sequenceOf(state, op.seq_id);
    const computed = sequence.num_computed_tokens;
    expect(op.at === computed, `${computed} tokens are computed, not ${op.at}`);
    const parts = [op.positions, op.scores, op.ranks, op.lowest_kept];
    expect(new Set(parts.map((part) => part.length)).size === 1, "its lists have different numbers of KV heads");
    for (const [head, positions] of op.positions.entries()) {
      const sizes = new Set([positions, op.scores[head], op.ranks[head]].map((part) => part.length));
      expect(sizes.size === 1, "a head does not have a score and a rank for each position");
      const known = positions.every((position) => position >= 0 && position < op.at);
      expect(known, `a position is not among the ${op.at} computed ones`);
    }
    const { type: _, ...decided } = op;
    own(state, sequence, "forgotten").push(decided);
  },

  keep(state, op) {
    const sequence = sequenceOf(state, op.seq_id);
    const known = op.position >= 0 && op.position < sequence.token_ids.length;
    expect(known, `sequence ${op.seq_id} has no token at ${op.position}`);
    expect(!sequence.pinned.includes(op.position), `position ${op.position} is kept already`);
    const pinned = own(state, sequence, "pinned");
    pinned.push(op.position);
    pinned.sort((/** @type {number} */ a, /** @type {number} */ b) => a - b);
  },

  discard(state, op) {
    sequenceOf(state, op.seq_id).num_computed_tokens = 0;
  },
};
