// Operations of speculative decoding. Mirrors those in engine/trace/operation_effects.py: same rules, same errors.

import { ownTables } from "./instances.js";
import { blockOf, expect, own, sequenceOf } from "./state_access.js";

/** @type {Pick<import("./state_operations.js").Operations, "draft" | "verify" | "take_back">} */
export const DRAFTS = {
  draft(state, op, _index, { drafts }) {
    const running = sequenceOf(state, op.seq_id).status === "running";
    expect(running && !drafts.has(op.seq_id), `sequence ${op.seq_id} drafts nothing now`);
    expect(op.token_ids.length === op.token_bytes.length, "drafts and texts are of different number");
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
      `${count} tokens cannot go`,
    );
    for (const table of ownTables(state, sequence))
      for (let logical = Math.floor(start / size); logical < table.length; logical++) {
        const block = blockOf(state, table[logical]);
        const kept = Math.max(start - logical * size, 0);
        if (block.token_ids.length <= kept) continue;
        expect(block.ref_count === 1 && block.block_hash === null, `block ${block.block_id} is not its own`);
        own(state, block, "token_ids").length = kept;
      }
    sequence.num_computed_tokens = start;
  },
};
