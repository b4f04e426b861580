// Geometry of the token strip: where each column and row lies. Pure.

const GAP = 2;
const BLOCK_GAP = 8; // where one block ends and the next begins

/** Columns of `count` tokens: `x(position)`, `width`, `total`, and the positions visible in a window. */
export function columns({ count, expected, blockSize, width, minimum, maximum }) {
  const perBlock = blockSize > 0 && blockSize < expected ? blockSize : 0;
  const gaps = perBlock ? Math.ceil(expected / perBlock) * BLOCK_GAP : 0;
  const fitted = Math.floor((width - gaps) / Math.max(expected, 1)) - GAP;
  const column = Math.max(minimum, Math.min(maximum, fitted));
  const x = (position) => position * (column + GAP) + (perBlock ? Math.floor(position / perBlock) * BLOCK_GAP : 0);
  return {
    width: column,
    count,
    x,
    total: count ? x(count - 1) + column : 0,
    at(offset) {
      let low = 0;
      let high = count - 1;
      while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (x(middle) <= offset) low = middle;
        else high = middle - 1;
      }
      return count && offset >= x(low) && offset <= x(low) + column + GAP ? low : null;
    },
    visible(left, right) {
      const step = column + GAP;
      const first = Math.max(0, Math.floor(left / (step + (perBlock ? BLOCK_GAP / perBlock : 0))) - 2);
      let last = first;
      while (last < count && x(last) < right) last++;
      return [first, last];
    },
  };
}

/** Rows of the strip in `height` pixels, top to bottom: attention, K, V, Q; the tokens lie below in the document. */
export function rows(height) {
  const gap = 8;
  const room = height - 4 * gap;
  const vector = Math.floor(Math.min(120, room * 0.225));
  const attention = Math.max(56, room - 3 * vector);
  const at = { attention: { y: gap, height: attention } };
  let y = gap + attention + gap;
  for (const kind of ["k", "v", "q"]) {
    at[kind] = { y, height: vector };
    y += vector + gap;
  }
  return at;
}
