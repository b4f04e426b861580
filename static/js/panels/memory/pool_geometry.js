// Geometry of the pool: where each block and slot lies. Pure.
//
// Block groups lie one below the other, on one grid of the same squares; where there are several, each has a line for
// its title. Slot level, while every slot can be told apart; block level beyond that: a block is a small square with a
// level of filling.

import { groupOf } from "../../core/groups.js";

const TITLE = 20; // a group's title, where there are several
const HEAD = 12; // a block's own line: id, owners, hash
const PAD = 5; // between blocks in a row
const [ROW_GAP, CLOSE] = [5, 3]; // between rows; where groups have titles between them
const EDGE = 3; // left and right, for the frame of a block that is pointed at
const LABEL = 36; // room for a block's own line
const [MAX_CELL, MIN_CELL] = [24, 7];
const LONG = 32; // slots a block, from which on cells may be too small to name their tokens
const [MAX_PITCH, MIN_PITCH] = [26, 3];
const [MAX_BAR, MIN_BAR] = [22, 10];

/**
 * @typedef {{x: number, y: number, width: number, height: number}} Box in px
 * @typedef {import("../../state/store.js").State["block_groups"][number]} Group
 * @typedef {{first: number, count: number, rows: number, title: number, top: number}} Part the blocks of a group: their
 *   ids, how many rows they take, the upper edges of the title and of the first row
 * @typedef {{block: number, offset: number | null}} Hit the block at a place, and its slot where slots are told apart
 */

/**
 * @typedef {{top: number, left: number, width: number}} Title of a group
 *
 * Where blocks lie on the grid.
 *
 * @typedef {object} Grid
 * @property {{width: number, height: number}} block
 * @property {number} columns
 * @property {number} rows of all groups
 * @property {Part[]} parts one a group
 * @property {number} stepX from one block to the next
 * @property {number} stepY
 * @property {number} height
 * @property {Title[]} titles where each group's is; none where there is one group
 * @property {(id: number) => Box} blockAt
 * @property {(id: number, key: string) => number | null} neighbour the block that an arrow key leads to
 */

/**
 * @typedef {Grid & {
 *   level: "slots" | "blocks", cell: number, tall: number, perRow: number, lines: number, head: number,
 *   slotAt: (id: number, slot: number) => Box, hit: (x: number, y: number) => Hit | null,
 * }} Layout `cell` and `tall`: width and height of a slot; `perRow` and `lines`: slots side by side and below each
 *   other in a block; `head`: height of a block's own line
 */

/** @typedef {(x: number, y: number) => number | null} SlotIn the slot at a place inside a block */

/**
 * Of one pool, or of several below each other.
 *
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
 * Cells at least `least` wide, wider where a block's own line needs the room, and `tall`.
 *
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
 * Squares, or bars over the whole width where there are few blocks; slots lie side by side within.
 *
 * @param {Group[]} groups
 * @param {number} size
 * @param {number} width
 * @param {number} outer the height that there is
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

/** @typedef {{titled: boolean, width: number}} Heads whether groups have titles, and how wide these are */

/**
 * @param {Group[]} groups
 * @param {number} columns
 * @param {number} stepX
 * @param {number} stepY
 * @param {{width: number, height: number}} block
 * @param {Heads} heads
 * @param {number} [top] where the first group begins
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
 * Left and right go on over all blocks, up and down keep the column, into the next group too.
 *
 * @param {Pick<Grid, "parts" | "columns">} grid
 * @param {number} group that of block `id`
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

/**
 * @param {Grid} grid
 * @param {SlotIn} slotIn
 * @returns {Layout["hit"]}
 */
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
