// Picture of a large pool with one pixel per block: order and colour of the blocks. Pure.

/** @import {Columns} from "./log_index.js" */

/**
 * @typedef {[number, number, number]} Rgb
 * @typedef {"owner" | "age" | "refs" | "hits" | "group" | "tier"} Meaning
 * @typedef {"id" | "owner" | "used"} Order
 * @typedef {{paper: Rgb, ink: Rgb, owners: Rgb[], scale: Rgb[], cached: number}} Inks `scale`: from the least to the
 * most; `cached`: share of the colour for a block without an owner
 */

/** @type {readonly Meaning[]} */
export const MEANINGS = ["owner", "age", "refs", "hits", "group", "tier"];
/** @type {readonly Order[]} */
export const ORDERS = ["id", "owner", "used"];
/** Meanings with one colour per value instead of a scale. @type {readonly Meaning[]} */
export const NAMED = ["owner", "group", "tier"];
const MAX_REFS = 8; // number of owners with the strongest colour
const MAX_HITS = 64; // the same for hits
/** Share of the colour of a cached block without an owner: its content can still be hit. */
export const CACHED = 0.45;
/** Start of the scale, so that the least value differs from a block without content. */
export const FAINTEST = 0.2;

/**
 * Return columns and rows of `count` cells, and the largest side of a cell in whole pixels that fits into `width` ×
 * `height`.
 * @param {number} count
 * @param {number} width
 * @param {number} height
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

/** Return block ids in display order; equal keys are ordered by id. @param {Columns} columns @param {Order} order */
export function orderOf(columns, order) {
  const count = columns.owner.length;
  const ids = Uint32Array.from({ length: count }, (_, i) => i);
  if (order === "id") return ids;
  const key = order === "owner" ? columns.owner : columns.used_in;
  const keyed = new Float64Array(count); // key and id in one number, since sorting numbers is fast
  const down = order === "used" ? -1 : 1; // most recently used first
  for (let i = 0; i < count; i++) keyed[i] = down * (key[i] + 1) * count + i;
  keyed.sort();
  for (let i = 0; i < count; i++) ids[i] = ((keyed[i] % count) + count) % count;
  return ids;
}

/**
 * Write one pixel per block into `pixels` (RGBA, one for each of `ids`): its colour by `meaning` after record `at`. A
 * block without content has the background colour; a cached one without an owner has a weaker colour.
 * @param {Uint32Array} pixels
 * @param {Uint32Array} ids
 * @param {Columns} columns
 * @param {Meaning} meaning
 * @param {number} at
 * @param {Inks} inks
 * @param {(block: number) => number} groupOf
 */
export function colourBlocks(pixels, ids, columns, meaning, at, inks, groupOf) {
  const { ref_count, is_cached, owner } = columns;
  const { held, cached, paper, unknown } = packed(inks, meaning);
  const shade = shaded(columns, meaning, at, held.length - 1, groupOf);
  for (let place = 0; place < ids.length; place++) {
    const id = ids[place];
    const inkOf = ref_count[id] > 0 ? held : cached;
    if (ref_count[id] === 0 && !is_cached[id]) pixels[place] = paper;
    else pixels[place] = meaning === "owner" && owner[id] < 0 ? unknown : inkOf[shade(id)];
  }
}

/**
 * Return the colours of a meaning as pixels, for blocks with an owner and for blocks that are only cached.
 * @param {Inks} inks
 * @param {Meaning} meaning
 */
function packed({ paper, ink, owners, scale, cached }, meaning) {
  const all = NAMED.includes(meaning) ? owners : scale;
  const weaker = (/** @type {Rgb} */ rgb) =>
    pixelOf(/** @type {Rgb} */ (rgb.map((part, i) => paper[i] + cached * (part - paper[i]))));
  return {
    held: Uint32Array.from(all, pixelOf),
    cached: Uint32Array.from(all, weaker),
    paper: pixelOf(paper),
    unknown: weaker(ink),
  };
}

/** Return a colour in the byte order of a canvas on a little-endian machine. @param {Rgb} rgb */
const pixelOf = ([r, g, b]) => ((255 << 24) | (Math.round(b) << 16) | (Math.round(g) << 8) | Math.round(r)) >>> 0;

/**
 * Return a function from block to the index of its colour, 0 to `last`.
 * @param {Columns} columns
 * @param {Meaning} meaning
 * @param {number} at
 * @param {number} last
 * @param {(block: number) => number} groupOf
 * @returns {(id: number) => number}
 */
function shaded({ owner, used_in, ref_count, num_hits, tiers }, meaning, at, last, groupOf) {
  if (meaning === "owner") return (id) => owner[id] % (last + 1);
  if (meaning === "group") return (id) => groupOf(id) % (last + 1);
  if (meaning === "tier") return (id) => tiers[id] % (last + 1);
  if (meaning === "refs") return (id) => Math.round((last * Math.min(MAX_REFS, ref_count[id])) / MAX_REFS);
  const steps = last / Math.log2(1 + (meaning === "hits" ? MAX_HITS : Math.max(1, at)));
  if (meaning === "hits") return (id) => Math.round(steps * Math.log2(1 + Math.min(MAX_HITS, num_hits[id])));
  return (id) => last - Math.min(last, Math.round(steps * Math.log2(1 + Math.max(0, at - used_in[id])))); // records
}
