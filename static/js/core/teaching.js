// The head that a run is best explained with: decided once for a log, so that nobody's picture changes by itself.

import { strongest } from "./attention.js";
import { tellingHeads } from "./heads.js";
import { attentionRow } from "./sequence_view.js";
import { isWhole, layersHere, widestIn } from "./wide_rows.js";

/**
 * @typedef {import("./log.js").TraceLog} TraceLog
 * @typedef {{layer: number, head: number}} Place
 */

/** @type {WeakMap<TraceLog, {next: number, found: Place | null}>} */
const decisions = new WeakMap();

/**
 * The layer and head to open on: the one that was measured when the model was trained; where its layer was not
 * recorded, or none was measured, the widest row of the first record with arrays in which a query has a choice of
 * keys; else the head that reads one key most, neither its own nor the first; else the first. Before that record came:
 * the measured one, or null.
 * @param {TraceLog} log @returns {Place | null}
 */
export function teachingHead(log) {
  const measured = tellingHeads(log.header.model)[0] ?? null;
  let decision = decisions.get(log);
  if (!decision) decisions.set(log, (decision = { next: 0, found: null }));
  for (; !decision.found && decision.next < log.arrivals.length; decision.next++) {
    const { record } = log.arrivals[decision.next];
    const hasChoice = log.records[record].batch?.some((entry) => entry.context_len > 1);
    if (hasChoice && isWhole(log, record)) decision.found = decide(log, record, measured);
  }
  return decision.found ?? measured;
}

/** @param {TraceLog} log @param {number} record @param {Place | null} measured @returns {Place | null} */
function decide(log, record, measured) {
  const layers = layersHere(log, record);
  if (!layers.length) return null;
  if (measured && layers.includes(measured.layer)) return measured;
  const wide = widestIn(log, record) ?? widestIn(log, record, 2);
  return wide ?? sharpestIn(log, record, layers) ?? { layer: layers[0], head: 0 };
}

/**
 * The head whose newest query reads one key most that is neither its own nor the first.
 * @param {TraceLog} log @param {number} record @param {number[]} layers @returns {Place | null}
 */
function sharpestIn(log, record, layers) {
  /** @type {(Place & {weight: number}) | null} */
  let best = null;
  for (const { seq_id, context_len } of log.records[record].batch ?? [])
    for (const layer of layers)
      for (let head = 0; head < log.header.model.num_heads; head++) {
        const row = attentionRow(log, record, seq_id, layer, head, context_len - 1);
        const { position, weight } = row ? strongest(row) : { position: 0, weight: 0 };
        if (position > 0 && position < context_len - 1 && weight > (best?.weight ?? 0)) best = { layer, head, weight };
      }
  return best && { layer: best.layer, head: best.head };
}
