// Registry of positions in the window, for drawings that cross regions. Each region registers its positions, so that
// regions do not depend on each other.

/** @typedef {{x: number, y: number, width: number, height: number}} Box CSS pixels of the window */
/**
 * `vector`: K or V of a position of the sequence on stage; `slot`: a block's slot in the pool, or the block if the
 * offset is null; `columns`: visible columns of `count` positions of a sequence from `first` on; `track`: a sequence's
 * name beside the scheduler's tracks; `record`: a record on the timeline. Null if not visible.
 *
 * @typedef {{
 *   vector: (kind: "k" | "v", position: number) => Box | null,
 *   slot: (block: number, offset: number | null) => Box | null,
 *   columns: (seq: number, first: number, count: number) => Box | null,
 *   track: (seq: number) => Box | null,
 *   record: (index: number) => Box | null,
 * }} Anchors
 */

/** @type {Partial<Anchors>} */
const registered = {};

/**
 * Register the position of `kind`. Returns a function that unregisters it.
 * @template {keyof Anchors} K
 * @param {K} kind
 * @param {Anchors[K]} find
 */
export function registerAnchor(kind, find) {
  registered[kind] = find;
  return () => {
    if (registered[kind] === find) delete registered[kind];
  };
}

/**
 * Return the position of `kind` in the window.
 * @template {keyof Anchors} K
 * @param {K} kind
 * @param {Parameters<Anchors[K]>} of
 * @returns {Box | null}
 */
export const anchorOf = (kind, ...of) =>
  /** @type {(...of: unknown[]) => Box | null} */ (registered[kind])?.(...of) ?? null;

const FLIGHT = 0.6; // duration of one position's movement, as a share of the writing phase; positions start in order

/**
 * Return the progress of the K and V of position `i` of `count` when the writing phase is at `progress`. The easing
 * (state/playhead.js) is undone, so that they move at constant speed.
 * @param {number} i
 * @param {number} count
 * @param {number} progress
 */
export function writeProgress(i, count, progress) {
  const start = count > 1 ? ((1 - FLIGHT) * i) / (count - 1) : 0;
  const time = 1 - Math.cbrt(1 - progress);
  return Math.max(0, Math.min(1, (time - start) / FLIGHT));
}
