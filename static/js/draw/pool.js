// Geometry of the pool: where each block and slot lies. Pure.

const HEAD = 13; // a block's own line: id, owners, hash
const PAD = 6; // between blocks in a row
const ROW_GAP = 5; // between rows
const EDGE = 3; // left and right, for the frame of a block that is pointed at
const MAX_CELL = 24;
const MIN_CELL = 9;

/** The largest cells with which `count` blocks of `size` slots fit in width × height; the pool scrolls below that. */
export function poolLayout(count, size, width, height) {
  let chosen = null;
  for (let cell = MAX_CELL; cell >= MIN_CELL; cell--) {
    chosen = arrange(count, size, width, cell);
    if (chosen.height <= height) break;
  }
  return chosen;
}

function arrange(count, size, outer, cell) {
  const width = outer - 2 * EDGE;
  const widest = Math.max(1, Math.floor((width - 2) / cell));
  const perRow = Math.min(size, widest, size <= 8 ? size : size <= 32 ? 8 : widest);
  const lines = Math.ceil(size / perRow);
  const minimum = 44; // room for the block's line
  const block = { width: Math.max(perRow * cell, minimum), height: HEAD + lines * cell };
  const columns = Math.max(1, Math.min(count, Math.floor((width + PAD) / (block.width + PAD))));
  const rows = Math.ceil(count / columns);
  const layout = { cell, perRow, lines, block, columns, rows, height: rows * (block.height + ROW_GAP) };
  const spread = columns > 1 ? Math.floor((width - columns * block.width) / (columns - 1)) : 0;
  const step = block.width + Math.min(spread, PAD * 3);
  layout.blockAt = (id) => ({ x: EDGE + (id % columns) * step, y: Math.floor(id / columns) * (block.height + ROW_GAP) });
  layout.slotAt = (id, slot) => {
    const { x, y } = layout.blockAt(id);
    return { x: x + (slot % perRow) * cell, y: y + HEAD + Math.floor(slot / perRow) * cell };
  };
  layout.hit = (x, y) => {
    const column = Math.floor((x - EDGE) / step);
    const id = Math.floor(y / (block.height + ROW_GAP)) * columns + column;
    if (id < 0 || id >= count || column < 0 || column >= columns) return null;
    const at = layout.blockAt(id);
    if (x - at.x > block.width || y - at.y > block.height) return null;
    const slot = Math.floor((y - at.y - HEAD) / cell) * perRow + Math.floor((x - at.x) / cell);
    return { block: id, offset: y - at.y >= HEAD && slot >= 0 && slot < size && x - at.x < perRow * cell ? slot : null };
  };
  return layout;
}

export { HEAD };
