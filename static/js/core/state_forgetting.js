// Operations of KV cache compression. Mirrors those in engine/trace/operation_effects.py: same rules, same errors.

import { expect, own, sequenceOf } from "./state_access.js";

/** @type {Pick<import("./state_operations.js").Operations, "forget" | "keep">} */
export const FORGETTING = {
  forget(state, op) {
    const sequence = sequenceOf(state, op.seq_id);
    const computed = sequence.num_computed_tokens;
    expect(op.at === computed, `${computed} tokens are computed, not ${op.at}`);
    const parts = [op.positions, op.scores, op.ranks, op.lowest_kept];
    expect(new Set(parts.map((part) => part.length)).size === 1, "its parts are not of the same KV heads");
    for (const [head, positions] of op.positions.entries()) {
      const sizes = new Set([positions, op.scores[head], op.ranks[head]].map((part) => part.length));
      expect(sizes.size === 1, "a head has not a score and a rank for each position");
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
};
