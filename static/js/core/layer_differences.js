// How far two ways of computing the same are apart, layer by layer: in attention weights, in K and in V. Pure.

/**
 * @typedef {import("./attention.js").Compared} Compared
 * @typedef {"k" | "v" | "weights"} Kind
 * @typedef {{layer: number, k: Compared, v: Compared, weights: Compared}} LayerDifference
 */

/** @type {readonly Kind[]} in the order in which a layer computes them */
export const KINDS = ["k", "v", "weights"];

/**
 * Up to here a difference is rounding: runs whose batches have the same neighbours agree to about 1e-6, and to about
 * 1e-3 where a batch has others.
 */
export const SAME = 0.01;

/**
 * The lowest layer in which something differs by more than rounding, and by how much what it computes first does:
 * whatever comes later inherits that. Null when no layer differs.
 * @param {LayerDifference[]} layers
 * @returns {{layer: number, kind: Kind, max: number} | null}
 */
export function firstDifferent(layers) {
  for (const one of [...layers].sort((a, b) => a.layer - b.layer))
    for (const kind of KINDS) if (one[kind].max > SAME) return { layer: one.layer, kind, max: one[kind].max };
  return null;
}

/**
 * The largest difference of each kind over all layers, and over how many numbers.
 * @param {LayerDifference[]} layers
 * @returns {Record<Kind, {count: number, max: number, layer: number}>}
 */
export function largestOf(layers) {
  const found = KINDS.map((kind) => {
    const worst = { count: 0, max: 0, layer: layers[0]?.layer ?? 0 };
    for (const one of layers) {
      worst.count += one[kind].count;
      if (one[kind].max > worst.max) Object.assign(worst, { max: one[kind].max, layer: one.layer });
    }
    return /** @type {const} */ ([kind, worst]);
  });
  return /** @type {any} */ (Object.fromEntries(found)); // `any`: fromEntries forgets which keys it was given
}

const LEAST = -9; // log10 of the difference from which a bar has a height
/**
 * How high a bar of a difference stands, from 0 to 1: by its order of magnitude, 1e-9 or less is 0, 1 or more is 1.
 * @param {number} max
 */
export const heightOf = (max) => (max <= 0 ? 0 : Math.max(0, Math.min(1, 1 - Math.log10(max) / LEAST)));
