// Differences between two computations, per layer: in attention weights, K and V. Pure.

/** @import {Compared} from "./attention.js" */

/**
 * @typedef {"k" | "v" | "weights"} Kind
 * @typedef {{layer: number, k: Compared, v: Compared, weights: Compared}} LayerDifference
 */

/** @type {readonly Kind[]} in the order of computation within a layer */
export const KINDS = ["k", "v", "weights"];

/**
 * Differences up to this value are rounding: runs whose batches have the same neighbours agree to about 1e-6, and to
 * about 1e-3 otherwise.
 */
export const SAME = 0.01;

/**
 * Return the lowest layer that differs by more than rounding, with its first kind that differs and the difference,
 * which propagates to later layers. Null if no layer differs.
 * @param {LayerDifference[]} layers
 * @returns {{layer: number, kind: Kind, max: number} | null}
 */
export function firstDifferent(layers) {
  for (const one of [...layers].sort((a, b) => a.layer - b.layer))
    for (const kind of KINDS) if (one[kind].max > SAME) return { layer: one.layer, kind, max: one[kind].max };
  return null;
}

/**
 * Return the largest difference of each kind over all layers, and the number of values compared.
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
  return /** @type {any} */ (Object.fromEntries(found)); // `any`: fromEntries loses the key types
}

const MIN_EXPONENT = -9; // log10 of the difference at which bars start
/**
 * Return the height of a difference's bar, from 0 to 1, by order of magnitude: 1e-9 or less is 0, 1 or more is 1.
 * @param {number} max
 */
export const heightOf = (max) => (max <= 0 ? 0 : Math.max(0, Math.min(1, 1 - Math.log10(max) / MIN_EXPONENT)));
