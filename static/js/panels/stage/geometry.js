// Geometry of the token strip: where each column and row lies, and the whole sequence in small. Pure.

const GAP = 2;
const BLOCK_GAP = 8; // where one block ends and the next begins
const AHEAD = 2; // columns that are kept free when the strip scrolls to a new one
const MARGIN = 2; // columns beyond the window that are there already

/**
 * @typedef {ReturnType<typeof columns>} Columns
 * @typedef {ReturnType<typeof miniature>} Miniature
 * @typedef {{y: number, height: number}} Band a row of the strip
 */

/**
 * Width of `count` columns that fill a window of `width`, blocks apart.
 *
 * @param {number} count
 * @param {number} blockSize
 * @param {number} width
 */
export function fittedColumn(count, blockSize, width) {
  const gaps = blockSize > 0 && blockSize < count ? Math.ceil(count / blockSize) * BLOCK_GAP : 0;
  return Math.floor((width - gaps) / Math.max(count, 1)) - GAP;
}

/**
 * Columns of a sequence: `x(position)`, `width`, `at(offset)` (the position there, or null), `visible(left, right)`
 * (the positions [first, last) of a window), `whole(room)` and `extent`, the width of what can be scrolled over.
 * `count` columns exist of the `expected` ones; in a strip that holds them all they are as wide as fits.
 *
 * @param {{count: number, expected: number, blockSize: number, width: number, minimum: number, maximum: number}} room
 */
export function columns({ count, expected, blockSize, width, minimum, maximum }) {
  const perBlock = blockSize > 0 && blockSize < expected ? blockSize : 0;
  const column = Math.max(minimum, Math.min(maximum, fittedColumn(expected, blockSize, width)));
  const step = column + GAP;
  const block = perBlock * step + BLOCK_GAP;
  /** @param {number} position */
  const x = (position) => position * step + (perBlock ? Math.floor(position / perBlock) * BLOCK_GAP : 0);
  /**
   * The last position that begins at or before `offset`.
   *
   * @param {number} offset
   */
  const before = (offset) => {
    if (!perBlock) return Math.floor(offset / step);
    const logical = Math.floor(offset / block);
    return logical * perBlock + Math.min(perBlock - 1, Math.floor((offset - logical * block) / step));
  };
  const end = count ? x(count - 1) + column : 0;
  const full = expected ? x(expected - 1) + column : 0;
  const ahead = AHEAD * step;
  return {
    width: column,
    count,
    expected,
    perBlock,
    x,
    ahead,
    extent: Math.max(end, Math.min(full, end + ahead)),
    /** @param {number} offset */
    at(offset) {
      const position = before(offset);
      return position >= 0 && position < count && offset <= x(position) + column + GAP ? position : null;
    },
    /**
     * How many columns stand whole in a window of `room` at the beginning.
     *
     * @param {number} room
     */
    whole: (room) => Math.max(0, Math.min(count, before(Math.max(0, room - column)) + (room >= column ? 1 : 0))),
    /** @type {(left: number, right: number) => [number, number]} */
    visible(left, right) {
      const first = Math.max(0, Math.min(count, before(Math.max(0, left)) - MARGIN));
      return [first, Math.max(first, Math.min(count, before(right) + 1 + MARGIN))];
    },
  };
}

/**
 * Where to scroll so that the columns [first, last] are in sight: `offset` itself when they are, or when they are wider
 * than the window its newest part. New columns come in with room for the next ones beside them.
 *
 * @param {Columns} layout
 * @param {number} offset
 * @param {number} width
 * @param {number} first
 * @param {number} last
 */
export function scrollTo(layout, offset, width, first, last) {
  const [left, right] = [layout.x(first), layout.x(last) + layout.width];
  const seen = right <= offset + width && (left >= offset || right - left > width);
  if (seen) return offset;
  const ahead = right - left < width - layout.ahead ? layout.ahead : 0;
  const wanted = left < offset && right - left <= width ? left - ahead : right - width + ahead;
  return Math.max(0, Math.min(wanted, layout.extent - width));
}

const LEAST = 18; // px of a row of vectors: with less room there is none
const ATTENTION = 36; // px of the attention row beside others: a bar, and its weight above it
const STATE = 18; // px of the row of a state

/**
 * Rows of the strip in `height` pixels, top to bottom: attention, K, V, a state where the model keeps one, Q; the
 * tokens lie below in the document. Where it is low the attention row stays alone, and the others have no height.
 *
 * @param {number} height
 * @param {boolean} withState
 * @returns {Record<"attention" | "k" | "v" | "state" | "q", Band>}
 */
export function rows(height, withState = false) {
  const gap = 8;
  const state = withState ? STATE + gap : 0;
  const room = height - 4 * gap - state;
  const vector = Math.floor(Math.min(120, room * 0.225, (room - ATTENTION) / 3));
  if (vector < LEAST) {
    const attention = { y: gap, height: Math.max(0, height - 2 * gap) };
    const none = { y: gap + attention.height, height: 0 };
    return { attention, k: none, v: none, state: none, q: none };
  }
  const attention = room - 3 * vector;
  const top = gap + attention + gap;
  /** @param {number} i */
  const row = (i) => ({ y: top + i * (vector + gap) + (i > 1 ? state : 0), height: vector });
  const below = { y: top + 2 * (vector + gap), height: state && STATE };
  return { attention: { y: gap, height: attention }, k: row(0), v: row(1), state: below, q: row(2) };
}

/**
 * The whole sequence in `width` pixels: `x(position)` and `position(x)`, over a number of places that seldom changes
 * while the sequence grows (the next power of two, no more than can come).
 *
 * @param {number} count
 * @param {number} expected
 * @param {number} width
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
 * The largest of the weights that fall into each of `bins` pixels of a miniature; 0 where no key was read.
 *
 * @param {{keyStart: number, weights: Float32Array}} row
 * @param {Miniature} mini
 * @param {number} bins
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

const EDGE = 6; // a figure's distance from the names beside the strip, which end where it begins

/**
 * Of figures `{weight, middle, half}` those that can stand side by side: where two would overlap, the larger weight's
 * stays.
 *
 * @template {{weight: number, middle: number, half: number}} F
 * @param {F[]} figures
 */
export function figuresApart(figures) {
  /** @type {F[]} */
  const kept = [];
  for (const one of [...figures].sort((a, b) => b.weight - a.weight))
    if (kept.every((other) => Math.abs(other.middle - one.middle) >= other.half + one.half + 3)) kept.push(one);
  return kept;
}

/**
 * Where the middle of a figure over x lies that is twice `half` wide: over its column, but whole within `left` and
 * `right`; null where nothing of its column, twice `column` wide, is between them.
 *
 * @param {number} x
 * @param {number} half
 * @param {{left: number, right: number}} room
 * @param {number} column
 */
export function figureMiddle(x, half, { left, right }, column) {
  if (x + column <= left || x - column >= right) return null;
  return Math.max(left + EDGE + half, Math.min(x, right - half));
}

/**
 * How far the key in place `i` of `count` is lit when `progress` of the reading is done: the keys are read in order,
 * each over a quarter of the time.
 *
 * @param {number} i
 * @param {number} count
 * @param {number} progress
 */
export function litAt(i, count, progress) {
  const over = Math.max(1, count / 4);
  return Math.max(0, Math.min(1, (progress * (count - 1 + over) - i) / over));
}
