// The head that a run is best explained with: decided once for a log, so that nobody's picture changes by itself.

import { isWhole, layersHere, widestIn } from "./film.js";
import { tellingHeads } from "./heads.js";
import { HeadRoles } from "./roles.js";

/**
 * @typedef {import("./log.js").TraceLog} TraceLog
 * @typedef {{layer: number, head: number}} Place
 */

/** @type {WeakMap<TraceLog, {next: number, found: Place | null}>} */
const decisions = new WeakMap();

/**
 * The layer and head to open on: the one that was measured when the model was trained; where its layer was not
 * recorded, or none was measured, the widest row of the first record with arrays in which a query has a choice of
 * keys; else the head that stands out most there; else the first. Before that record came: the measured one, or null.
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
  if (wide) return wide;
  const roles = new HeadRoles(log);
  for (const layer of layers) roles.add(log.layer(record, layer));
  const [best] = roles.best().sort((a, b) => b.mean_weight - a.mean_weight);
  return best ? { layer: best.layer, head: best.head } : { layer: layers[0], head: 0 };
}
