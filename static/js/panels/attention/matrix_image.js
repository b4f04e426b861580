// The rows of the causal matrix as one image, filled incrementally over several frames.

import { computed, signal } from "../../../vendor/signals/signals.js";
import { canFetch, rowOf, rowSources } from "../../core/attention.js";
import { originOf } from "../../core/sequence_view.js";
import { isElsewhere } from "../../core/slot_origins.js";
import { themeVersion } from "../../kit/colour.js";
import { requestLayer } from "../../net/commands.js";
import { sequenceView } from "../../state/store.js";
import { RowImage } from "./rows.js";

/** @import {View} from "../../state/store.js" */

/** @typedef {{of: string, query: number, key: number, weight: number, sum: number}} NonCausalWeight */

const FILL_MS = 7; // time budget of a frame for reading rows
const MAX_FETCHES = 128;

export const image = new RowImage();
export const filling = signal(0); // increments while rows are still being read
// Largest weight in the image `of` for a key after its query, or null if all rows are causal.
export const nonCausal = signal(/** @type {NonCausalWeight | null} */ (null));

/** Record and sequence that computed each row. */
export const sources = computed(() => (sequenceView.value ? rowSources(sequenceView.value) : []));

/**
 * Return the largest weight for a later key in the first `count` rows, or null.
 * @param {number} count
 * @returns {NonCausalWeight | null}
 */
export function largestNonCausal(count) {
  /** @type {NonCausalWeight | null} */
  let found = null;
  for (const [query, { position: key, weight, sum }] of image.rows.later)
    if (query < count && key < count && weight > (found?.weight ?? 0))
      found = { of: image.key, query, key, weight, sum };
  return found;
}

/** Return whether this layer was computed but its rows were omitted from the capture for size. @param {View} now */
function isOmitted(now) {
  const first = sources.value[0];
  if (!first) return false;
  return now.log.layer(first.record, now.layer) !== null && !rowOf(now.log, first, now.layer, now.head);
}

/** Return the message key of the foot: the meaning of the rows, or why some are hatched. @param {View | null} now */
export function footOf(now) {
  if (now && isOmitted(now)) return "matrix.omitted";
  const elsewhere = (/** @type {unknown} */ source, /** @type {number} */ position) =>
    source === null && now && isElsewhere(originOf(now, position));
  return sources.value.some(elsewhere) ? "matrix.elsewhere" : "matrix.axes";
}

/** Key of the row image for the shown sequence, layer and head. @param {View} now */
export const imageOf = (now) => `${now.log.id}/${now.seq.seq_id}/${now.layer}/${now.head}`;

/** @param {{record: number, seq_id: number, position: number}} source */
export const nameOf = (source) => `${source.record}/${source.seq_id}/${source.position}`;

/**
 * Add missing rows to the image, newest first, within the frame's time budget, and request rows that can be fetched.
 * Returns whether every loaded row has been added.
 * @param {View} now
 */
export function fill(now) {
  image.reset(imageOf(now), themeVersion.peek());
  const until = performance.now() + FILL_MS;
  let numFetched = 0;
  const from = sources.peek();
  for (let query = from.length - 1; query >= 0; query--) {
    const source = from[query];
    if (!source || image.rows.sources[query] === nameOf(source)) continue;
    if (canFetch(now.log, source, now.layer)) {
      if (numFetched < MAX_FETCHES) requestLayer(source.record, now.layer);
      numFetched += 1;
      continue;
    }
    const row = rowOf(now.log, source, now.layer, now.head);
    if (row) image.put(query, nameOf(source), row);
    if (performance.now() > until) {
      filling.value = filling.peek() + 1;
      return false;
    }
  }
  return true;
}
