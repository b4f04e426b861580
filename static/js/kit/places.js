// Where things are in the window that others draw over it, or that move from one region to another: each region says it
// of its own, so that none needs to know another.

/** @typedef {{x: number, y: number, width: number, height: number}} Box CSS pixels of the window */
/**
 * `vector`: K or V of a position of the sequence on stage; `slot`: a block's slot in the pool, without an offset the
 * block; `columns`: those of `count` positions of a sequence from `first` on, as far as they are in sight; `lane`: a
 * sequence's name beside the scheduler's lanes; `record`: one on the timeline. Null: not in sight.
 *
 * @typedef {{
 *   vector: (kind: "k" | "v", position: number) => Box | null,
 *   slot: (block: number, offset: number | null) => Box | null,
 *   columns: (seq: number, first: number, count: number) => Box | null,
 *   lane: (seq: number) => Box | null,
 *   record: (index: number) => Box | null,
 * }} Places
 */

/** @type {Partial<Places>} */
const known = {};

/**
 * Say where `kind` is, until what is returned is called.
 *
 * @template {keyof Places} K
 * @param {K} kind
 * @param {Places[K]} find
 */
export function placed(kind, find) {
  known[kind] = find;
  return () => {
    if (known[kind] === find) delete known[kind];
  };
}

/**
 * Where `kind` is drawn.
 *
 * @template {keyof Places} K
 * @param {K} kind
 * @param {Parameters<Places[K]>} of
 * @returns {Box | null}
 */
export const boxOf = (kind, ...of) => /** @type {(...of: unknown[]) => Box | null} */ (known[kind])?.(...of) ?? null;

const FLIGHT = 0.6; // of the writing that one position's K and V are under way; the others follow

/**
 * How far the K and V that are written in place `i` of `count` have come, when `progress` of the writing is done, which
 * begins fast and ends slowly (state/moment.js): they fly evenly.
 *
 * @param {number} i
 * @param {number} count
 * @param {number} progress
 */
export function flown(i, count, progress) {
  const start = count > 1 ? ((1 - FLIGHT) * i) / (count - 1) : 0;
  const time = 1 - Math.cbrt(1 - progress);
  return Math.max(0, Math.min(1, (time - start) / FLIGHT));
}
