// Provenance chains: links from a selection to everything connected with it. Pure.
//
// A link is `{kind, fidelity, …values}`; `go` leads to a record, `select` to another selection, `layers` are those
// of its block group if a run has several.

import { ofBlock } from "./provenance/block.js";
import { ofDecision } from "./provenance/decision.js";
import { ofFigure } from "./provenance/figure.js";
import { ofPosition } from "./provenance/position.js";
import { ofSequence } from "./provenance/sequence.js";

/** @import {TraceLog} from "./log.js" */
/** @import {Selection, View} from "./provenance/types.js" */

/**
 * Return `{kind, links}` of `selection` after record `index`; null if it does not exist there. `view`: {seq, layer,
 * head} of the stage: the sequence that a position belongs to, and the layer and head of a weight.
 * @param {TraceLog} log
 * @param {number} index
 * @param {Selection | null} selection
 * @param {View} [view]
 * @returns {import("./provenance/types.js").Chain | null}
 */
export function provenanceOf(log, index, selection, view = {}) {
  if (!selection || index < 0 || index >= log.length) return null;
  const at = { log, index, state: log.stateAt(index), layer: view.layer ?? 0, head: view.head ?? 0 };
  const seqId = selection.seq ?? view.seq ?? -1;
  if (selection.position !== undefined) return ofPosition(at, seqId, selection.position, selection.query);
  if (selection.block !== undefined) return ofBlock(at, selection.block, selection.offset ?? null);
  if (selection.figure !== undefined) return ofFigure(at, selection.figure);
  if (selection.record !== undefined) return ofDecision(log, selection.record, selection.op ?? 0);
  return selection.seq === undefined ? null : ofSequence(at, selection.seq);
}

/**
 * Return everything connected with a selection, for highlighting: `{blocks, slots, seqs, position, query}`; `blocks`
 * and `seqs` are sets, `slots` a set of slot numbers.
 * @param {TraceLog} log
 * @param {number} index
 * @param {Selection | null} selection
 * @param {View} [view]
 */
export function connectedTo(log, index, selection, view = {}) {
  /** @type {Record<"blocks" | "slots" | "seqs", Set<number>>} */
  const found = { blocks: new Set(), slots: new Set(), seqs: new Set() };
  const chain = provenanceOf(log, index, selection, view);
  for (const link of chain?.links ?? []) {
    const isHighlighted = HIGHLIGHTED.has(link.kind);
    if ("block" in link && isHighlighted) found.blocks.add(link.block);
    if ("blocks" in link) for (const block of link.blocks) found.blocks.add(block);
    if ("slot" in link) found.slots.add(link.slot);
    if ("seq" in link && link.seq !== undefined && isHighlighted) found.seqs.add(link.seq);
    if ("owners" in link) for (const owner of link.owners) found.seqs.add(owner.seq);
  }
  return found;
}

const HIGHLIGHTED = new Set(["key", "slot", "block", "table", "sequence", "operation", "part"]);
