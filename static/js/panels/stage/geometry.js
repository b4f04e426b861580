// Geometry of the token row: columns, rows, and the minimap. Pure.

const GAP = 2;
const BLOCK_GAP = 8; // px between two blocks
const COLUMNS_AHEAD = 2; // empty columns beside a new column after scrolling to it
const COLUMNS_BEYOND = 2; // columns rendered beyond each edge of the window

/**
 * @typedef {ReturnType<typeof columns>} Columns
 * @typedef {ReturnType<typeof miniature>} Miniature
 * @typedef {{y: number, height: number}} Band vertical extent of a row of the token row
 */

/**
 * Return the width at which `count` columns fill a window of `width`, including gaps between blocks.
 * @param {number} count @param {number} blockSize @param {number} width
 */
export function fittedColumn(count, blockSize, width) {
  const gaps = blockSize > 0 && blockSize < count ? Math.ceil(count / blockSize) * BLOCK_GAP : 0;
  return Math.floor((width - gaps) / Math.max(count, 1)) - GAP;
}

/**
 * Lay out the columns of a sequence: `x(position)`, `width`, `at(offset)` (position there, or null), `visible(left,
 * right)` (positions [first, last) in a window), `whole(room)` and `extent`, the scrollable width. `count` of
 * `expected` columns exist; if all expected columns fit, they fill the width.
 * @param {{count: number, expected: number, blockSize: number, width: number, minimum: number, maximum: number}} room
 */
export function columns({ count, expected, blockSize, width, minimum, maximum }) {
  const perBlock = blockSize > 0 && blockSize < expected ? blockSize : 0;
  const column = Math.max(minimum, Math.min(maximum, fittedColumn(expected, blockSize, width)));
  const step = column + GAP;
  const block = perBlock * step + BLOCK_GAP;
  /** @param {number} position */
  const x = (position) => position * step + (perBlock ? Math.floor(position / perBlock) * BLOCK_GAP : 0);
  /** Return the last position that begins at or before `offset`. @param {number} offset */
  const lastBefore = (offset) => {
    if (!perBlock) return Math.floor(offset / step);
    const logical = Math.floor(offset / block);
    return logical * perBlock + Math.min(perBlock - 1, Math.floor((offset - logical * block) / step));
  };
  const end = count ? x(count - 1) + column : 0;
  const expectedEnd = expected ? x(expected - 1) + column : 0;
  const ahead = COLUMNS_AHEAD * step;
  return {
    width: column,
    count,
    expected,
    perBlock,
    x,
    ahead,
    extent: Math.max(end, Math.min(expectedEnd, end + ahead)),
    /** @param {number} offset */
    at(offset) {
      const position = lastBefore(offset);
      return position >= 0 && position < count && offset <= x(position) + column + GAP ? position : null;
    },
    /** Return the number of columns that fit entirely into `room` at the beginning. @param {number} room */
    whole: (room) => Math.max(0, Math.min(count, lastBefore(Math.max(0, room - column)) + (room >= column ? 1 : 0))),
    /** @type {(left: number, right: number) => [number, number]} */
    visible(left, right) {
      const first = Math.max(0, Math.min(count, lastBefore(Math.max(0, left)) - COLUMNS_BEYOND));
      return [first, Math.max(first, Math.min(count, lastBefore(right) + 1 + COLUMNS_BEYOND))];
    },
  };
}

/**
 * Return the scroll offset that shows the columns [first, last]: `offset` if they are visible. If they are wider than
 * the window, the newest part is shown. Beside new columns there is space for the next ones.
 * @param {Columns} layout @param {number} offset @param {number} width
 * @param {number} first @param {number} last
 */
export function scrollTo(layout, offset, width, first, last) {
  const [left, right] = [layout.x(first), layout.x(last) + layout.width];
  const isVisible = right <= offset + width && (left >= offset || right - left > width);
  if (isVisible) return offset;
  const ahead = right - left < width - layout.ahead ? layout.ahead : 0;
  const target = left < offset && right - left <= width ? left - ahead : right - width + ahead;
  return Math.max(0, Math.min(target, layout.extent - width));
}

const MIN_VECTOR = 18; // px of a vector row; lower views have no vector rows
const MIN_ATTENTION = 36; // px of the attention row if there are vector rows: a bar with its weight above
const STATE_HEIGHT = 18; // px

/**
 * Return the rows of the token row in `height` px, top to bottom: attention, K, V, state if the model has one, Q. The
 * tokens follow below in the document. In low views only the attention row has a height.
 * @param {number} height @param {boolean} withState
 * @returns {Record<"attention" | "k" | "v" | "state" | "q", Band>}
 */
export function rows(height, withState = false) {
  const gap = 8;
  const state = withState ? STATE_HEIGHT + gap : 0;
  const room = height - 4 * gap - state;
  const vector = Math.floor(Math.min(120, room * 0.225, (room - MIN_ATTENTION) / 3));
  if (vector < MIN_VECTOR) {
    const attention = { y: gap, height: Math.max(0, height - 2 * gap) };
    const none = { y: gap + attention.height, height: 0 };
    return { attention, k: none, v: none, state: none, q: none };
  }
  const attention = room - 3 * vector;
  const top = gap + attention + gap;
  /** @param {number} i */
  const row = (i) => ({ y: top + i * (vector + gap) + (i > 1 ? state : 0), height: vector });
  const below = { y: top + 2 * (vector + gap), height: state && STATE_HEIGHT };
  return { attention: { y: gap, height: attention }, k: row(0), v: row(1), state: below, q: row(2) };
}

/**
 * Map the complete sequence to `width` px: `x(position)` and `position(x)`. The number of places rarely changes as the
 * sequence grows: the next power of two, at most the expected length.
 * @param {number} count @param {number} expected @param {number} width
 */
export function miniature(count, expected, width) {
  const places = Math.max(count, Math.min(expected, Math.max(64, 2 ** Math.ceil(Math.log2(Math.max(count, 1))))));
  const unit = places ? width / places : 0;
  return {
    places,
    unit,
    /** @param {number} position */
    x: (position) => position * unit,
    /** @param {number} x */
    position: (x) => Math.max(0, Math.min(places - 1, Math.floor(x / (unit || 1)))),
  };
}

/**
 * Return the largest weight in each of `bins` px of the minimap, 0 where no key was read.
 * @param {{keyStart: number, weights: Float32Array}} row
 * @param {Miniature} mini @param {number} bins
 */
export function pooledWeights(row, mini, bins) {
  const found = new Float32Array(bins);
  for (let i = 0; i < row.weights.length; i++) {
    const from = Math.floor(mini.x(row.keyStart + i));
    const to = Math.min(bins, Math.max(from + 1, Math.floor(mini.x(row.keyStart + i + 1))));
    for (let bin = from; bin < to; bin++) if (row.weights[i] > found[bin]) found[bin] = row.weights[i];
  }
  return found;
}

const NAME_GAP = 6; // px between a figure and the row names beside the token row

/**
 * Return the figures `{weight, middle, half}` that do not overlap. Of overlapping ones, the largest weight is returned.
 * @template {{weight: number, middle: number, half: number}} F
 * @param {F[]} figures
 */
export function separateFigures(figures) {
  /** @type {F[]} */
  const spaced = [];
  for (const one of [...figures].sort((a, b) => b.weight - a.weight))
    if (spaced.every((other) => Math.abs(other.middle - one.middle) >= other.half + one.half + 3)) spaced.push(one);
  return spaced;
}

/**
 * Return the centre of a figure at x with half width `half`: above its column, but entirely within `left` and `right`.
 * Returns null if its column of half width `column` is outside.
 * @param {number} x @param {number} half
 * @param {{left: number, right: number}} room
 * @param {number} column
 */
export function figureMiddle(x, half, { left, right }, column) {
  if (x + column <= left || x - column >= right) return null;
  return Math.max(left + NAME_GAP + half, Math.min(x, right - half));
}

/**
 * Return the highlight (0 to 1) of key `i` of `count` at `progress` of the reading. Keys are read in order, each during
 * a quarter of the time.
 * @param {number} i @param {number} count @param {number} progress
 */
export function readProgressAt(i, count, progress) {
  const span = Math.max(1, count / 4);
  return Math.max(0, Math.min(1, (progress * (count - 1 + span) - i) / span));
}
