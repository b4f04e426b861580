// Geometry of the pool: the position of each block and slot. Pure. Block groups are stacked on one grid of equal
// squares; if there are several, each has a title line. At slot level every slot is drawn. If slots would be too
// small, the layout is at block level: each block is a small square with a fill level.

import { groupOf } from "../../core/groups.js";

const TITLE_HEIGHT = 20; // px of a group's title
const HEAD_HEIGHT = 12; // px of a block's header line: id, owners, hash
const COLUMN_GAP = 5; // px between blocks in a row
const [ROW_GAP, CLOSE_ROW_GAP] = [5, 3]; // px between rows; the smaller value for groups with titles
const MARGIN = 3; // px at the left and right for the frame of a highlighted block
const MIN_HEAD_WIDTH = 36; // px of a block's header line
const [MAX_CELL, MIN_CELL] = [24, 7];
const MANY_SLOTS = 32; // per block; with more, cells may be too small to show tokens
const [MAX_PITCH, MIN_PITCH] = [26, 3];
const [MAX_BAR, MIN_BAR] = [22, 10];

/**
 * @typedef {{x: number, y: number, width: number, height: number}} Box in px
 * @typedef {import("../../state/store.js").State["block_groups"][number]} Group
 * @typedef {{first: number, count: number, rows: number, title: number, top: number}} GroupRows blocks of a group:
 *   the first id, their number, number of rows, and y of the title and of the first row
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
 * @property {(id: number, key: string) => number | null} neighbour block in the direction of an arrow key
 */

/**
 * @typedef {Grid & {
 *   level: "slots" | "blocks", cell: number, tall: number, perRow: number, lines: number, head: number,
 *   slotAt: (id: number, slot: number) => Box, hit: (x: number, y: number) => Hit | null,
 * }} Layout `cell` and `tall`: width and height of a slot; `perRow` and `lines`: slots per row and rows of
 *   a block; `head`: height of a block's header line
 */

/** @typedef {(x: number, y: number) => number | null} SlotIn slot at a point inside a block */

/**
 * Lay out one pool, or several stacked pools.
 * @param {Group[]} groups @param {number} size @param {number} width
 * @param {number} height
 * @param {boolean} hasTitles whether each group has a title
 * @returns {Layout}
 */
export function layoutOf(groups, size, width, height, hasTitles) {
  const inner = width - 2 * MARGIN;
  for (let cell = MAX_CELL; cell >= (size > MANY_SLOTS ? 3 : MIN_CELL); cell--) {
    const found = slotLevel(groups, size, inner, cell, cell, hasTitles);
    if (found.height > height) continue;
    const room = Math.floor((height - found.height) / (found.rows * found.lines));
    return slotLevel(groups, size, inner, cell, Math.min(cell + room, Math.round(found.cell * 1.5)), hasTitles);
  }
  return blockLevel(groups, size, inner, height, hasTitles);
}

/**
 * Lay out cells of height `tall` that are at least `minWidth` wide, or wider if a block's header line needs the space.
 * @param {Group[]} groups @param {number} size @param {number} width
 * @param {number} minWidth @param {number} tall @param {boolean} hasTitles
 * @returns {Layout}
 */
function slotLevel(groups, size, width, minWidth, tall, hasTitles) {
  const maxPerRow = Math.max(1, Math.floor((width - 2) / minWidth));
  const perRow = Math.min(size, maxPerRow, size <= 8 ? size : size <= MANY_SLOTS ? 8 : maxPerRow);
  const lines = Math.ceil(size / perRow);
  const cell = Math.max(minWidth, Math.min(MAX_CELL, Math.floor(MIN_HEAD_WIDTH / perRow)));
  const block = { width: Math.max(perRow * cell, MIN_HEAD_WIDTH), height: HEAD_HEIGHT + lines * tall };
  const columns = Math.max(
    1,
    Math.min(maxBlocks(groups), Math.floor((width + COLUMN_GAP) / (block.width + COLUMN_GAP))),
  );
  const spread = columns > 1 ? Math.floor((width - columns * block.width) / (columns - 1)) : 0;
  const grid = gridOf(
    groups,
    columns,
    block.width + Math.max(COLUMN_GAP, Math.min(spread, COLUMN_GAP * 3)),
    block.height + (hasTitles ? CLOSE_ROW_GAP : ROW_GAP),
    block,
    { hasTitles, width },
  );
  /** @type {Layout["slotAt"]} */
  const slotAt = (id, slot) => {
    const { x, y } = grid.blockAt(id);
    return {
      x: x + (slot % perRow) * cell,
      y: y + HEAD_HEIGHT + Math.floor(slot / perRow) * tall,
      width: cell - 1,
      height: tall - 1,
    };
  };
  /** @type {SlotIn} */
  const slotIn = (x, y) => {
    const slot = Math.floor((y - HEAD_HEIGHT) / tall) * perRow + Math.floor(x / cell);
    return y >= HEAD_HEIGHT && slot < size && x < perRow * cell ? slot : null;
  };
  return { ...grid, level: "slots", cell, tall, perRow, lines, head: HEAD_HEIGHT, slotAt, hit: hitOf(grid, slotIn) };
}

/** @param {Group[]} groups */
const maxBlocks = (groups) => Math.max(...groups.map((group) => group.num_blocks));
/** @type {(groups: Group[], columns: number) => number} */
const rowsIn = (groups, columns) => groups.reduce((sum, group) => sum + Math.ceil(group.num_blocks / columns), 0);

/**
 * Lay out squares, or bars of full width for few blocks. Slots are side by side within a block.
 * @param {Group[]} groups @param {number} size @param {number} width
 * @param {number} available height in px
 * @param {boolean} hasTitles
 * @returns {Layout}
 */
function blockLevel(groups, size, width, available, hasTitles) {
  const height = available - MARGIN - (hasTitles ? groups.length * TITLE_HEIGHT : 0);
  const titleOptions = { hasTitles, width };
  const count = rowsIn(groups, 1);
  const bar = Math.min(MAX_BAR, Math.floor(height / count) - 2);
  if (bar >= MIN_BAR && count <= 8)
    return blockGrid(groups, size, 1, width, bar + 2, { width, height: bar }, titleOptions);
  let pitch = MAX_PITCH;
  /** @param {number} p */
  const columnsOf = (p) => Math.max(1, Math.floor((width + gapOf(p)) / p));
  while (pitch > MIN_PITCH && rowsIn(groups, columnsOf(pitch)) * pitch > height) pitch -= pitch > 8 ? 1 : 0.5;
  const side = pitch - gapOf(pitch);
  return blockGrid(groups, size, columnsOf(pitch), pitch, pitch, { width: side, height: side }, titleOptions);
}

/** @param {number} pitch */
const gapOf = (pitch) => (pitch >= 14 ? 3 : pitch >= 7 ? 2 : pitch >= 4 ? 1 : 0.5);

/**
 * @param {Group[]} groups @param {number} size @param {number} columns
 * @param {number} stepX @param {number} stepY
 * @param {{width: number, height: number}} block
 * @param {TitleOptions} titleOptions
 * @returns {Layout}
 */
function blockGrid(groups, size, columns, stepX, stepY, block, titleOptions) {
  const grid = gridOf(groups, columns, stepX, stepY, block, titleOptions, MARGIN);
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

/** @typedef {{hasTitles: boolean, width: number}} TitleOptions whether groups have titles, and the titles' width */

/**
 * @param {Group[]} groups @param {number} columns @param {number} stepX
 * @param {number} stepY
 * @param {{width: number, height: number}} block
 * @param {TitleOptions} titleOptions
 * @param {number} [top] y of the first group
 * @returns {Grid}
 */
function gridOf(groups, columns, stepX, stepY, block, titleOptions, top = 0) {
  const title = titleOptions.hasTitles ? TITLE_HEIGHT : 0;
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
      x: MARGIN + (place % columns) * stepX,
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
    titles: title ? parts.map((part) => ({ top: part.title, left: 0, width: titleOptions.width + 2 * MARGIN })) : [],
    blockAt,
  };
  return { ...grid, neighbour: (id, key) => neighbourOf(grid, groupOf(groups, id), id, key) };
}

/**
 * Return the neighbouring block. Left and right move through all blocks; up and down stay in the column across groups.
 * @param {Pick<Grid, "parts" | "columns">} grid
 * @param {number} group index of the group of block `id`
 * @param {number} id @param {string} key
 */
function neighbourOf({ parts, columns }, group, id, key) {
  /** @type {Record<string, number>} */
  const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns };
  const step = steps[key];
  if (!step) return null;
  const { first, count } = parts[group];
  const next = id + step;
  const leavesGroup = next < first || next >= first + count;
  const all = parts.reduce((sum, part) => sum + part.count, 0);
  if (!leavesGroup || Math.abs(step) === 1) return next >= 0 && next < all ? next : null;
  const other = parts[group + Math.sign(step)];
  if (!other) return null;
  const column = (id - first) % columns;
  const row = step > 0 ? 0 : other.rows - 1;
  return other.first + Math.min(row * columns + column, other.count - 1);
}

/** @param {Grid} grid @param {SlotIn} slotIn @returns {Layout["hit"]} */
function hitOf(grid, slotIn) {
  return (x, y) => {
    const column = Math.floor((x - MARGIN) / grid.stepX);
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
