// Geometry of the pool: where each block and slot lies. Pure.
//
// Slot level, while every slot can be told apart; block level beyond that: a block is a small square with a level of filling.

const HEAD = 12; // a block's own line: id, owners, hash
const PAD = 5; // between blocks in a row
const ROW_GAP = 5; // between rows
const EDGE = 3; // left and right, for the frame of a block that is pointed at
const LABEL = 36; // room for a block's own line
const [MAX_CELL, MIN_CELL] = [24, 7];
const LONG = 32; // slots a block, from which on cells may be too small to name their tokens
const [MAX_PITCH, MIN_PITCH] = [26, 3];
const [MAX_BAR, MIN_BAR] = [22, 10];

/**
 * The largest picture of `count` blocks of `size` slots that fits in width × height: `{level, cell, tall, block, columns, rows, height,
 * blockAt(id), slotAt(id, slot), hit(x, y)}`. A pool of more blocks than there are places is higher than `height`, and scrolls.
 */
export function poolLayout(count, size, width, height) {
  const inner = width - 2 * EDGE;
  for (let cell = MAX_CELL; cell >= (size > LONG ? 3 : MIN_CELL); cell--) {
    const found = slotLevel(count, size, inner, cell, cell);
    if (found.height > height) continue;
    const room = Math.floor((height - found.height) / (found.rows * found.lines));
    return slotLevel(count, size, inner, cell, Math.min(cell + room, Math.round(found.cell * 1.5)));
  }
  return blockLevel(count, size, inner, height);
}

/** Cells at least `least` wide, wider where a block's own line needs the room, and `tall`. */
function slotLevel(count, size, width, least, tall) {
  const widest = Math.max(1, Math.floor((width - 2) / least));
  const perRow = Math.min(size, widest, size <= 8 ? size : size <= LONG ? 8 : widest);
  const lines = Math.ceil(size / perRow);
  const cell = Math.max(least, Math.min(MAX_CELL, Math.floor(LABEL / perRow)));
  const block = { width: Math.max(perRow * cell, LABEL), height: HEAD + lines * tall };
  const columns = Math.max(1, Math.min(count, Math.floor((width + PAD) / (block.width + PAD))));
  const spread = columns > 1 ? Math.floor((width - columns * block.width) / (columns - 1)) : 0;
  const grid = gridOf(count, columns, block.width + Math.max(PAD, Math.min(spread, PAD * 3)), block.height + ROW_GAP, block);
  const slotAt = (id, slot) => {
    const { x, y } = grid.blockAt(id);
    return { x: x + (slot % perRow) * cell, y: y + HEAD + Math.floor(slot / perRow) * tall, width: cell - 1, height: tall - 1 };
  };
  const slotIn = (x, y) => {
    const slot = Math.floor((y - HEAD) / tall) * perRow + Math.floor(x / cell);
    return y >= HEAD && slot < size && x < perRow * cell ? slot : null;
  };
  return { ...grid, level: "slots", cell, tall, perRow, lines, head: HEAD, slotAt, hit: hitOf(grid, count, slotIn) };
}

/** Squares, or bars over the whole width where there are few blocks; slots lie side by side within. */
function blockLevel(count, size, width, outer) {
  const height = outer - EDGE;
  const bar = Math.min(MAX_BAR, Math.floor(height / count) - 2);
  if (bar >= MIN_BAR && count <= 8) return withLevels(count, size, 1, width, bar + 2, { width, height: bar });
  let pitch = MAX_PITCH;
  const columnsOf = (p) => Math.max(1, Math.floor((width + gapOf(p)) / p));
  while (pitch > MIN_PITCH && Math.ceil(count / columnsOf(pitch)) * pitch > height) pitch -= pitch > 8 ? 1 : 0.5;
  const side = pitch - gapOf(pitch);
  return withLevels(count, size, columnsOf(pitch), pitch, pitch, { width: side, height: side });
}

const gapOf = (pitch) => (pitch >= 14 ? 3 : pitch >= 7 ? 2 : pitch >= 4 ? 1 : 0.5);

function withLevels(count, size, columns, stepX, stepY, block) {
  const grid = gridOf(count, columns, stepX, stepY, block, EDGE);
  const slotAt = (id, slot) => {
    const { x, y } = grid.blockAt(id);
    const wide = block.width / size;
    return { x: x + slot * wide, y, width: wide, height: block.height };
  };
  const slotIn = block.width / size >= 3 ? (x) => Math.min(size - 1, Math.floor((x / block.width) * size)) : () => null;
  return { ...grid, level: "blocks", cell: block.width / size, tall: block.height, perRow: size, lines: 1, head: 0, slotAt, hit: hitOf(grid, count, slotIn) };
}

function gridOf(count, columns, stepX, stepY, block, top = 0) {
  const rows = Math.ceil(count / columns);
  return {
    block,
    columns,
    rows,
    top,
    stepX,
    stepY,
    height: Math.ceil(top + rows * stepY),
    blockAt: (id) => ({ x: EDGE + (id % columns) * stepX, y: top + Math.floor(id / columns) * stepY, width: block.width, height: block.height }),
  };
}

function hitOf(grid, count, slotIn) {
  return (x, y) => {
    const column = Math.floor((x - EDGE) / grid.stepX);
    const id = Math.floor((y - grid.top) / grid.stepY) * grid.columns + column;
    if (id < 0 || id >= count || column < 0 || column >= grid.columns) return null;
    const at = grid.blockAt(id);
    if (x - at.x > at.width || y - at.y > at.height) return null;
    return { block: id, offset: slotIn(x - at.x, y - at.y) };
  };
}
