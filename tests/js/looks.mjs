// How the pool's blocks look, as tests compare it.

import { ownersOf } from "../../static/js/core/provenance/links.js";
import { restingLook } from "../../static/js/panels/memory/pool_look.js";

/** The look of a block of `state` while nothing moves. */
export const lookOf = (state, id) =>
  restingLook(
    state.blocks[id],
    ownersOf({ state }, id)
      .map((o) => o.seq)
      .sort(),
    state.block_size,
  );

/** A look without what only a motion has, in an order that can be compared. */
export const plain = (look) => ({
  ...look,
  owners: look.owners.map((o) => [o.seq, o.share]).sort(),
  fresh: undefined,
  renewed: undefined,
});
