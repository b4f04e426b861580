// A large pool as a picture of one pixel a block: which block stands where, and how each is coloured. Pure.

/**
 * @typedef {import("./survey.js").Columns} Columns
 * @typedef {[number, number, number]} Rgb
 * @typedef {"owner" | "age" | "refs" | "hits" | "group" | "tier"} Meaning
 * @typedef {"id" | "owner" | "used"} Order
 * @typedef {{paper: Rgb, ink: Rgb, owners: Rgb[], scale: Rgb[], cached: number}} Inks `scale`: from the least to the
 *   most; `cached`: the share of its colour that a block has that nobody holds
 */

/** @type {readonly Meaning[]} */
export const MEANINGS = ["owner", "age", "refs", "hits", "group", "tier"];
/** @type {readonly Order[]} */
export const ORDERS = ["id", "owner", "used"];
/** What has a colour of its own, and no place on a scale. @type {readonly Meaning[]} */
export const NAMED = ["owner", "group", "tier"];
const MAX_REFS = 8; // owners, from which on a block is drawn as shared by many
const MAX_HITS = 64;
/** Of a colour that a block keeps that nobody holds: its content may be found again. */
export const CACHED = 0.45;
/** Of the scale, where it begins: what is least is not like a block without content. */
export const FAINTEST = 0.2;

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
 * Write a pixel a block into `pixels` (RGBA, one for each of `ids`): its colour by `meaning` after record `at`. A block
 * without content is paper; of one that is cached and that nobody holds the colour is weaker.
 * @param {Uint32Array} pixels @param {Uint32Array} ids @param {Columns} columns @param {Meaning} meaning
 * @param {number} at @param {Inks} inks @param {(block: number) => number} groupOf
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
 * The colours of a meaning as pixels, of blocks that are held and of those that are cached only.
 * @param {Inks} inks @param {Meaning} meaning
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

/** As a canvas keeps it on a little-endian machine. @param {Rgb} rgb */
const pixelOf = ([r, g, b]) => ((255 << 24) | (Math.round(b) << 16) | (Math.round(g) << 8) | Math.round(r)) >>> 0;

/**
 * Which of the colours, 0 to `last`, a block has.
 * @param {Columns} columns @param {Meaning} meaning @param {number} at @param {number} last
 * @param {(block: number) => number} groupOf @returns {(id: number) => number}
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
