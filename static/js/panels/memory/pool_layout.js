// Layout of the pool: of one instance, or of several instances side by side with identical layouts. Pure.

import { layoutOf } from "./pool_geometry.js";

/** @import {Layout} from "./pool_geometry.js" */

/** @typedef {import("../../state/store.js").State["block_groups"][number]} Group */

const GAP = 14; // px between two pools
const MIN_WIDTH = 136; // px of a pool

/**
 * Return the width of each pool if several pools are shown side by side. Returns null if there is only one pool, or if
 * the pools do not fit or differ in size.
 * @param {Group[]} groups @param {number} width
 */
function widthBeside(groups, width) {
  const count = groups[groups.length - 1].instance + 1;
  const each = Math.floor((width - (count - 1) * GAP) / count);
  const first = groups.filter(({ instance }) => instance === 0).map(({ num_blocks: n }) => n);
  const isUniform = groups.every(({ num_blocks: n }, i) => n === first[i % first.length]);
  return count > 1 && each >= MIN_WIDTH && isUniform ? each : null;
}

/**
 * @param {Layout} one layout of the first pool
 * @param {number} total number of its blocks
 * @param {number} count number of pools
 * @param {number} width of each pool
 * @returns {Layout}
 */
function sideBySide(one, total, count, width) {
  const step = width + GAP;
  const poolOf = (/** @type {number} */ id) => Math.floor(id / total);
  const shifted = (/** @type {import("./pool_geometry.js").Box} */ box, /** @type {number} */ id) => ({
    ...box,
    x: box.x + poolOf(id) * step,
  });
  return {
    ...one,
    titles: Array.from({ length: count }, (_, pool) =>
      one.titles.map((title) => ({ ...title, left: pool * step, width })),
    ).flat(),
    blockAt: (id) => shifted(one.blockAt(id % total), id),
    slotAt: (id, slot) => shifted(one.slotAt(id % total, slot), id),
    hit(x, y) {
      const pool = Math.max(0, Math.min(count - 1, Math.floor(x / step)));
      const found = one.hit(x - pool * step, y);
      return found && { ...found, block: found.block + pool * total };
    },
    neighbour(id, key) {
      const horizontal = { ArrowLeft: id - 1, ArrowRight: id + 1 }[key];
      if (horizontal !== undefined) return horizontal >= 0 && horizontal < count * total ? horizontal : null;
      const found = one.neighbour(id % total, key);
      return found === null ? null : found + poolOf(id) * total;
    },
  };
}

/**
 * Return the largest layout of the blocks of `groups`, with `size` slots each, that fits in width × height. A pool with
 * too many blocks exceeds `height` and scrolls.
 * @param {Group[]} groups @param {number} size @param {number} width
 * @param {number} height
 * @returns {Layout}
 */
export function poolLayout(groups, size, width, height) {
  const eachWidth = widthBeside(groups, width);
  if (eachWidth === null) return layoutOf(groups, size, width, height, groups.length > 1);
  const firstGroups = groups.filter(({ instance }) => instance === 0);
  const total = firstGroups.reduce((sum, group) => sum + group.num_blocks, 0);
  return sideBySide(
    layoutOf(firstGroups, size, eachWidth, height, true),
    total,
    groups.length / firstGroups.length,
    eachWidth,
  );
}
