// Compare a recomputed layer with its captures, number by number, yielding to the page in between.

import { canFetch, comparePosition, nothingCompared, rowSources } from "../../core/attention.js";
import { sequenceViewAt } from "../../core/sequence_view.js";
import { wantLayer } from "../../net/commands.js";

/** @import {LayerCapture} from "../../core/trace.js" */
/** @import {View} from "../../state/store.js" */
/** @import {ComparedLayer} from "./proof.js" */

const SLICE_MS = 12; // time slice before yielding to the page

/**
 * @param {View} now
 * @param {LayerCapture} whole recomputed layer with all tokens
 * @param {number[]} heads
 * @returns {Promise<ComparedLayer>}
 */
export async function compare(now, whole, heads) {
  const { layer } = whole;
  const found = { layer, weights: nothingCompared(), k: nothingCompared(), v: nothingCompared(), rows: 0 };
  const view = sequenceViewAt(now.log, now.index, now.seq.seq_id, layer, now.head);
  const sources = view ? rowSources(view) : [];
  await Promise.all(
    sources.map((source) => (source && canFetch(now.log, source, layer) ? wantLayer(source.record, layer) : null)),
  );
  let turn = performance.now();
  for (const [position, source] of sources.entries()) {
    if (source && comparePosition(found, now.log, source, position, whole, heads)) found.rows += 1;
    if (performance.now() - turn < SLICE_MS) continue;
    await new Promise((resolve) => setTimeout(resolve));
    turn = performance.now();
  }
  return /** @type {ComparedLayer} */ (found);
}
