// Holes: free blocks that lie beside each other in a region of which sequences get pieces (strategy `first_fit`).
// Mirrors engine/trace/holes.py, which draws one. Pure.

/** @typedef {{block_id: number, num_blocks: number}} Hole blocks [block_id, block_id + num_blocks) */

/**
 * The holes of a group's pool, by place; neighbours are one hole.
 * @param {{ref_count: number}[]} blocks of the run
 * @param {{first_block: number, num_blocks: number}} group
 */
export function holesOf(blocks, { first_block, num_blocks }) {
  /** @type {Hole[]} */
  const found = [];
  for (let id = first_block; id < first_block + num_blocks; id++) {
    if (blocks[id].ref_count > 0) continue;
    const last = found.at(-1);
    if (last && last.block_id + last.num_blocks === id) last.num_blocks += 1;
    else found.push({ block_id: id, num_blocks: 1 });
  }
  return found;
}

/**
 * The first hole with so many blocks; undefined: no hole is large enough.
 * @param {Hole[]} holes @param {number} numBlocks
 */
export const firstFit = (holes, numBlocks) => holes.find((hole) => hole.num_blocks >= numBlocks);

/**
 * How a pool's free blocks lie: how many there are, and how many the largest hole has.
 * @param {Hole[]} holes
 */
export const fragmentation = (holes) => ({
  free: holes.reduce((sum, hole) => sum + hole.num_blocks, 0),
  largest: Math.max(0, ...holes.map((hole) => hole.num_blocks)),
});
