// A large pool as a picture of one pixel a block: which block stands where, and how each is coloured. Pure.

/**
 * @typedef {import("./survey.js").Columns} Columns
 * @typedef {[number, number, number]} Rgb
 * @typedef {"owner" | "age" | "refs" | "hits" | "group"} Meaning
 * @typedef {"id" | "owner" | "used"} Order
 * @typedef {{paper: Rgb, ink: Rgb, owners: Rgb[], scale: Rgb[]}} Inks `scale`: from the least to the most
 */

/** @type {readonly Meaning[]} */
export const MEANINGS = ["owner", "age", "refs", "hits", "group"];
/** @type {readonly Order[]} */
export const ORDERS = ["id", "owner", "used"];
const MOST_REFS = 8; // owners, from which on a block is drawn as shared by many
const MOST_HITS = 64;
const CACHED = 0.45; // of a colour that a block keeps that nobody holds: its content may be found again

/**
 * Columns and rows of `count` cells, and the side of each in whole pixels, so that all fit `width` × `height`.
 * @param {number} count @param {number} width @param {number} height
 */
export function gridFor(count, width, height) {
  const side = Math.max(1, Math.floor(Math.sqrt((width * height) / Math.max(1, count))));
  for (let cell = side + 1; cell >= 1; cell--) {
    const columns = Math.max(1, Math.floor(width / cell));
    const rows = Math.ceil(count / columns);
    if (rows * cell <= height || cell === 1) return { columns, rows, cell };
  }
  return { columns: 1, rows: count, cell: 1 };
}

/**
 * Block ids in the order in which they stand; the same keys by id.
 * @param {Columns} columns @param {Order} order
 */
export function orderOf(columns, order) {
  const count = columns.owner.length;
  const ids = Uint32Array.from({ length: count }, (_, i) => i);
  if (order === "id") return ids;
  const key = order === "owner" ? columns.owner : columns.used_in;
  const keyed = new Float64Array(count); // key and id in one number: sorting numbers is what is quick
  const down = order === "used" ? -1 : 1; // used last comes first
  for (let i = 0; i < count; i++) keyed[i] = down * (key[i] + 1) * count + i;
  keyed.sort();
  for (let i = 0; i < count; i++) ids[i] = ((keyed[i] % count) + count) % count;
  return ids;
}

/**
 * Write a pixel a block into `pixels` (RGBA, `ids.length` of them): its colour by `meaning` after record `at`. A block
 * without content is paper; of one that is cached and that nobody holds the colour is weaker.
 * @param {Uint8ClampedArray} pixels @param {Uint32Array} ids @param {Columns} columns @param {Meaning} meaning
 * @param {number} at @param {Inks} inks @param {(block: number) => number} groupOf
 */
export function colourBlocks(pixels, ids, columns, meaning, at, inks, groupOf) {
  const { ref_count, is_cached } = columns;
  const { paper } = inks;
  for (let place = 0; place < ids.length; place++) {
    const id = ids[place];
    const held = ref_count[id] > 0;
    const [r, g, b] = held || is_cached[id] ? inkOf(columns, id, meaning, at, inks, groupOf) : paper;
    const share = held ? 1 : is_cached[id] ? CACHED : 0;
    const to = 4 * place;
    pixels[to] = paper[0] + share * (r - paper[0]);
    pixels[to + 1] = paper[1] + share * (g - paper[1]);
    pixels[to + 2] = paper[2] + share * (b - paper[2]);
    pixels[to + 3] = 255;
  }
}

/**
 * @param {Columns} columns @param {number} id @param {Meaning} meaning @param {number} at @param {Inks} inks
 * @param {(block: number) => number} groupOf
 * @returns {Rgb}
 */
function inkOf(columns, id, meaning, at, { ink, owners, scale }, groupOf) {
  if (meaning === "owner") return columns.owner[id] < 0 ? ink : owners[columns.owner[id] % owners.length];
  if (meaning === "group") return owners[groupOf(id) % owners.length];
  return scale[Math.round(shareOf(columns, id, meaning, at) * (scale.length - 1))];
}

/**
 * From 0 to 1.
 * @param {Columns} columns @param {number} id @param {"age" | "refs" | "hits"} meaning @param {number} at
 */
function shareOf(columns, id, meaning, at) {
  if (meaning === "refs") return Math.min(1, columns.ref_count[id] / MOST_REFS);
  if (meaning === "hits") return Math.log2(1 + Math.min(MOST_HITS, columns.num_hits[id])) / Math.log2(1 + MOST_HITS);
  const age = Math.max(0, at - columns.used_in[id]); // records; used last is strongest
  return 1 - Math.min(1, Math.log2(1 + age) / Math.log2(1 + Math.max(1, at)));
}
