// Geometry of the pictures of the intro view. Pure, except for measuring words.

/**
 * @typedef {{width: number, height: number}} Size
 * @typedef {{x: number, y: number, width: number, height: number}} Box
 * @typedef {{size: number, x: number[], widths: number[], first: number}} Columns of words from `first`: their
 *   centres and widths, and the font size
 */

let family = "";

/** CSS font of a canvas: the page's font at `size` px. @param {number} size @param {string} [weight] */
export function fontOf(size, weight = "") {
  family ||= getComputedStyle(document.documentElement).getPropertyValue("--sans");
  return `${weight} ${size}px ${family}`;
}

const MAX_SIZE = 52; // maximum font size in px
const MIN_SIZE = 15; // minimum font size in px
const FITTING_SIZE = 23; // font size in px at which words are counted
const WORD_GAP = 0.62; // space between words, in units of the font size

/** Width available for a line of words, without margins. @param {number} width */
export const lineWidth = (width) => width - (width < 720 ? 28 : 128);

/**
 * Compute columns for `words`, centred in `width`. If they do not fit at 15 px, the first words are dropped.
 * @param {CanvasRenderingContext2D} c @param {string[]} words @param {number} width
 * @param {number} [largest]
 * @returns {Columns}
 */
export function columnsOf(c, words, width, largest = MAX_SIZE) {
  c.font = fontOf(100);
  const unitWidths = words.map((word) => c.measureText(word).width / 100); // width at a font size of 1 px
  const share = (/** @type {number} */ w) => Math.max(0.9, w) + WORD_GAP;
  const total = unitWidths.reduce((sum, w) => sum + share(w), 0);
  const room = lineWidth(width);
  const size = Math.max(MIN_SIZE, Math.min(largest, Math.floor(room / total)));
  let first = 0;
  let left = total * size;
  while (left > room && first < words.length - 1) left -= share(unitWidths[first++]) * size;
  let end = (width - left) / 2;
  const widths = unitWidths.slice(first).map((w) => share(w) * size);
  const x = widths.map((w) => (end += w) - w / 2);
  return { size, x, widths, first };
}

/**
 * Return the number of words that fit side by side into `width`.
 * @param {CanvasRenderingContext2D} c @param {string[]} words @param {number} width
 */
export function countFitting(c, words, width) {
  c.font = fontOf(100);
  let [count, used] = [0, 0];
  for (const word of words) {
    used += (Math.max(0.9, c.measureText(word).width / 100) + WORD_GAP) * FITTING_SIZE;
    if (used > width) break;
    count += 1;
  }
  return count;
}

/**
 * Lay out the two lanes of the race: `count` tokens side by side, `steps` rows above, one row below, and the counters.
 * @param {Size} size @param {number} count @param {number} steps
 */
export function lanesOf({ width, height }, count, steps) {
  const narrow = width < 720;
  const margin = narrow ? 14 : Math.round(width * 0.05);
  const counter = narrow ? 0 : 190;
  const cell = Math.min(64, (width - 2 * margin - counter) / count);
  const top = narrow ? 66 : 36;
  const bottom = narrow ? 62 : 34; // px above the lower lane for its title and, on phones, the counter
  const [kv, foot] = [narrow ? 26 : 32, 34];
  const rows = Math.max(60, height - top - bottom - kv - foot - 24);
  const row = Math.min(22, rows / steps);
  const low = top + rows + 24 + bottom;
  return {
    narrow,
    margin,
    cell,
    row,
    top,
    low,
    kv,
    foot: low + kv + 6,
    right: width - margin,
    x: (/** @type {number} */ i) => margin + i * cell,
  };
}

/**
 * Lay out the pool: one box per block, with space above for block tables.
 * @param {Size} size @param {number} blocks
 * @param {number} slots slots per block
 * @param {number} tables share of the space for tables, from 0 to 1
 */
export function poolOf({ width, height }, blocks, slots, tables) {
  const narrow = width < 720;
  const columns = narrow ? 3 : 6;
  const rows = Math.ceil(blocks / columns);
  const margin = narrow ? 14 : Math.round(width * 0.09);
  const gap = narrow ? 12 : 24;
  const top = height * (0.3 + (narrow ? 0.14 : 0.18) * tables);
  const label = 20;
  const blockWidth = (width - 2 * margin - (columns - 1) * gap) / columns;
  const blockHeight = Math.min(narrow ? 60 : 84, (height - top - 8) / rows - label - 12);
  const slot = blockWidth / slots;
  const box = (/** @type {number} */ id) => ({
    x: margin + (id % columns) * (blockWidth + gap),
    y: top + Math.floor(id / columns) * (blockHeight + label + 12) + label,
    width: blockWidth,
    height: blockHeight,
  });
  return {
    narrow,
    margin,
    top,
    slot,
    box,
    slotBox: (/** @type {number} */ id, /** @type {number} */ offset) => {
      const { x, y, height: h } = box(id);
      return { x: x + offset * slot + 1, y: y + 3, width: slot - 2, height: h - 6 };
    },
  };
}

const MIN_WORD_HEIGHT = 46; // px per word of the fan including spacing; large enough for touch

/**
 * Compute the positions of the fan's words and branches. Low screens show fewer than `count`.
 * @param {Size} size @param {number} count
 */
export function fanOf({ width, height }, count) {
  const narrow = width < 720;
  const stem = narrow ? { x: width / 2, y: 64 } : { x: width * 0.3, y: height / 2 };
  const [left, wordWidth] = narrow ? [16, width - 32] : [width * 0.42, width * 0.55];
  const from = narrow ? (height < 360 ? 76 : 112) : height * 0.08;
  const room = height - from - (narrow ? 4 : height * 0.08);
  const shown = narrow && height > 0 ? Math.max(2, Math.min(count, Math.floor(room / MIN_WORD_HEIGHT))) : count;
  const each = Math.min(84, room / shown);
  const start = narrow ? from : (height - each * shown) / 2;
  return {
    narrow,
    stem,
    words: Array.from({ length: shown }, (_, i) => ({
      x: left,
      y: start + i * each + (each - Math.min(60, each - 8)) / 2,
      width: wordWidth,
      height: Math.min(60, each - 8),
    })),
  };
}
