// Geometry of the pool: the position of each block and slot. Pure. Block groups are stacked on one grid of equal
// squares; if there are several, each has a title line. At slot level every slot is drawn. When slots would be too
// small, at block level, each block is a small square with a fill level.

import { groupOf } from "../../core/groups.js";

const TITLE = 20; // height of a group's title
const HEAD = 12; // height of a block's own line: id, owners, hash
const PAD = 5; // px between blocks in a row
const [ROW_GAP, CLOSE] = [5, 3]; // between rows; the smaller value for groups with titles
const EDGE = 3; // left and right margin for the frame of a highlighted block
const LABEL = 36; // minimum width of a block's own line
const [MAX_CELL, MIN_CELL] = [24, 7];
const LONG = 32; // slots per block from which cells may be too small to show tokens
const [MAX_PITCH, MIN_PITCH] = [26, 3];
const [MAX_BAR, MIN_BAR] = [22, 10];

/**
 * @typedef {{x: number, y: number, width: number, height: number}} Box in px
 * @typedef {import("../../state/store.js").State["block_groups"][number]} Group
 * @typedef {{first: number, count: number, rows: number, title: number, top: number}} GroupRows blocks of a group:
 *   their ids, number of rows, and the upper edges of the title and of the first row
 * @typedef {{block: number, offset: number | null}} Hit block at a point, and its slot at slot level
 */

/**
 * @typedef {{top: number, left: number, width: number}} Title of a group
 *
 * Grid of blocks.
 *
 * @typedef {object} Grid
 * @property {{width: number, height: number}} block
 * @property {number} columns
 * @property {number} rows number of rows of all groups
 * @property {GroupRows[]} parts one per group
 * @property {number} stepX px from one block to the next
 * @property {number} stepY
 * @property {number} height
 * @property {Title[]} titles one per group; empty for a single group
 * @property {(id: number) => Box} blockAt
 * @property {(id: number, key: string) => number | null} neighbour block that an arrow key leads to
 */

/**
 * @typedef {Grid & {
 *   level: "slots" | "blocks", cell: number, tall: number, perRow: number, lines: number, head: number,
 *   slotAt: (id: number, slot: number) => Box, hit: (x: number, y: number) => Hit | null,
 * }} Layout `cell` and `tall`: width and height of a slot; `perRow` and `lines`: slots per row and rows of
 *   a block; `head`: height of a block's own line
 */

/** @typedef {(x: number, y: number) => number | null} SlotIn slot at a point inside a block */

/**
 * Lay out one pool, or several stacked pools.
 * @param {Group[]} groups
 * @param {number} size
 * @param {number} width
 * @param {number} height
 * @param {boolean} titled whether each group has a title
 * @returns {Layout}
 */
export function layoutOf(groups, size, width, height, titled) {
  const inner = width - 2 * EDGE;
  for (let cell = MAX_CELL; cell >= (size > LONG ? 3 : MIN_CELL); cell--) {
    const found = slotLevel(groups, size, inner, cell, cell, titled);
    if (found.height > height) continue;
    const room = Math.floor((height - found.height) / (found.rows * found.lines));
    return slotLevel(groups, size, inner, cell, Math.min(cell + room, Math.round(found.cell * 1.5)), titled);
  }
  return blockLevel(groups, size, inner, height, titled);
}

/**
 * Lay out cells of height `tall` that are at least `least` wide, wider if a block's own line needs the space.
 * @param {Group[]} groups
 * @param {number} size
 * @param {number} width
 * @param {number} least
 * @param {number} tall
 * @param {boolean} titled
 * @returns {Layout}
 */
function slotLevel(groups, size, width, least, tall, titled) {
  const widest = Math.max(1, Math.floor((width - 2) / least));
  const perRow = Math.min(size, widest, size <= 8 ? size : size <= LONG ? 8 : widest);
  const lines = Math.ceil(size / perRow);
  const cell = Math.max(least, Math.min(MAX_CELL, Math.floor(LABEL / perRow)));
  const block = { width: Math.max(perRow * cell, LABEL), height: HEAD + lines * tall };
  const columns = Math.max(1, Math.min(mostIn(groups), Math.floor((width + PAD) / (block.width + PAD))));
  const spread = columns > 1 ? Math.floor((width - columns * block.width) / (columns - 1)) : 0;
  const grid = gridOf(
    groups,
    columns,
    block.width + Math.max(PAD, Math.min(spread, PAD * 3)),
    block.height + (titled ? CLOSE : ROW_GAP),
    block,
    { titled, width },
  );
  /** @type {Layout["slotAt"]} */
  const slotAt = (id, slot) => {
    const { x, y } = grid.blockAt(id);
    return {
      x: x + (slot % perRow) * cell,
      y: y + HEAD + Math.floor(slot / perRow) * tall,
      width: cell - 1,
      height: tall - 1,
    };
  };
  /** @type {SlotIn} */
  const slotIn = (x, y) => {
    const slot = Math.floor((y - HEAD) / tall) * perRow + Math.floor(x / cell);
    return y >= HEAD && slot < size && x < perRow * cell ? slot : null;
  };
  return { ...grid, level: "slots", cell, tall, perRow, lines, head: HEAD, slotAt, hit: hitOf(grid, slotIn) };
}

/** @param {Group[]} groups */
const mostIn = (groups) => Math.max(...groups.map((group) => group.num_blocks));
/** @type {(groups: Group[], columns: number) => number} */
const rowsIn = (groups, columns) => groups.reduce((sum, group) => sum + Math.ceil(group.num_blocks / columns), 0);

/**
 * Lay out squares, or bars of full width for few blocks; slots are side by side within.
 * @param {Group[]} groups
 * @param {number} size
 * @param {number} width
 * @param {number} outer available height
 * @param {boolean} titled
 * @returns {Layout}
 */
function blockLevel(groups, size, width, outer, titled) {
  const height = outer - EDGE - (titled ? groups.length * TITLE : 0);
  const heads = { titled, width };
  const count = rowsIn(groups, 1);
  const bar = Math.min(MAX_BAR, Math.floor(height / count) - 2);
  if (bar >= MIN_BAR && count <= 8) return withLevels(groups, size, 1, width, bar + 2, { width, height: bar }, heads);
  let pitch = MAX_PITCH;
  /** @param {number} p */
  const columnsOf = (p) => Math.max(1, Math.floor((width + gapOf(p)) / p));
  while (pitch > MIN_PITCH && rowsIn(groups, columnsOf(pitch)) * pitch > height) pitch -= pitch > 8 ? 1 : 0.5;
  const side = pitch - gapOf(pitch);
  return withLevels(groups, size, columnsOf(pitch), pitch, pitch, { width: side, height: side }, heads);
}

/** @param {number} pitch */
const gapOf = (pitch) => (pitch >= 14 ? 3 : pitch >= 7 ? 2 : pitch >= 4 ? 1 : 0.5);

/**
 * @param {Group[]} groups
 * @param {number} size
 * @param {number} columns
 * @param {number} stepX
 * @param {number} stepY
 * @param {{width: number, height: number}} block
 * @param {Heads} heads
 * @returns {Layout}
 */
function withLevels(groups, size, columns, stepX, stepY, block, heads) {
  const grid = gridOf(groups, columns, stepX, stepY, block, heads, EDGE);
  /** @type {Layout["slotAt"]} */
  const slotAt = (id, slot) => {
    const { x, y } = grid.blockAt(id);
    const wide = block.width / size;
    return { x: x + slot * wide, y, width: wide, height: block.height };
  };
  /** @type {SlotIn} */
  const slotIn = block.width / size >= 3 ? (x) => Math.min(size - 1, Math.floor((x / block.width) * size)) : () => null;
  return {
    ...grid,
    level: "blocks",
    cell: block.width / size,
    tall: block.height,
    perRow: size,
    lines: 1,
    head: 0,
    slotAt,
    hit: hitOf(grid, slotIn),
  };
}

/** @typedef {{titled: boolean, width: number}} Heads whether groups have titles, and their width */

/**
 * @param {Group[]} groups
 * @param {number} columns
 * @param {number} stepX
 * @param {number} stepY
 * @param {{width: number, height: number}} block
 * @param {Heads} heads
 * @param {number} [top] y of the first group
 * @returns {Grid}
 */
function gridOf(groups, columns, stepX, stepY, block, heads, top = 0) {
  const title = heads.titled ? TITLE : 0;
  let next = top;
  const parts = groups.map(({ first_block: first, num_blocks: count }) => {
    const rows = Math.ceil(count / columns);
    const part = { first, count, rows, title: next, top: next + title };
    next = part.top + rows * stepY;
    return part;
  });
  /** @param {number} id */
  const blockAt = (id) => {
    const { first, top: upper } = parts[groupOf(groups, id)];
    const place = id - first;
    return {
      x: EDGE + (place % columns) * stepX,
      y: upper + Math.floor(place / columns) * stepY,
      width: block.width,
      height: block.height,
    };
  };
  const grid = {
    block,
    columns,
    rows: rowsIn(groups, columns),
    parts,
    stepX,
    stepY,
    height: Math.ceil(next),
    titles: title ? parts.map((part) => ({ top: part.title, left: 0, width: heads.width + 2 * EDGE })) : [],
    blockAt,
  };
  return { ...grid, neighbour: (id, key) => neighbourOf(grid, groupOf(groups, id), id, key) };
}

/**
 * Return the neighbouring block. Left and right run over all blocks; up and down keep the column across groups.
 * @param {Pick<Grid, "parts" | "columns">} grid
 * @param {number} group index of the group of block `id`
 * @param {number} id
 * @param {string} key
 */
function neighbourOf({ parts, columns }, group, id, key) {
  /** @type {Record<string, number>} */
  const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns };
  const step = steps[key];
  if (!step) return null;
  const { first, count } = parts[group];
  const next = id + step;
  const leaves = next < first || next >= first + count;
  const all = parts.reduce((sum, part) => sum + part.count, 0);
  if (!leaves || Math.abs(step) === 1) return next >= 0 && next < all ? next : null;
  const other = parts[group + Math.sign(step)];
  if (!other) return null;
  const column = (id - first) % columns;
  const row = step > 0 ? 0 : other.rows - 1;
  return other.first + Math.min(row * columns + column, other.count - 1);
}

/** @param {Grid} grid @param {SlotIn} slotIn @returns {Layout["hit"]} */
function hitOf(grid, slotIn) {
  return (x, y) => {
    const column = Math.floor((x - EDGE) / grid.stepX);
    const part = grid.parts.findLast(({ top }) => y >= top);
    if (!part || column < 0 || column >= grid.columns) return null;
    const place = Math.floor((y - part.top) / grid.stepY) * grid.columns + column;
    if (place >= part.count) return null;
    const id = part.first + place;
    const at = grid.blockAt(id);
    if (x - at.x > at.width || y - at.y > at.height) return null;
    return { block: id, offset: slotIn(x - at.x, y - at.y) };
  };
}
