// Current state of the pool for its painters: the drawn record, its progress, and slot reads.

import { computed } from "../../../vendor/signals/signals.js";
import { endOf } from "../../core/drafts.js";
import { groupOfLayer, ownersByBlock } from "../../core/groups.js";
import { slotOf } from "../../core/metrics.js";
import { attentionRow } from "../../core/sequence_view.js";
import { phase, phasesNow } from "../../state/playhead.js";
import { captureVersion, drawnIndex, head, layer, log, record, state } from "../../state/store.js";
import { movingLook, restingLook } from "./pool_look.js";
import { motionsOf, movingQueues, progressOf } from "./pool_motion.js";

/** @import {Progress} from "../../state/playhead.js" */
/** @import {State} from "../../state/store.js" */
/** @import {Motions} from "./pool_motion.js" */

/** @typedef {{before: State, after: State, motions: Motions}} Scene */

/** The drawn record as motions, or null without a log. */
export const scene = computed(() => {
  const after = state.value;
  if (!after || !log.value) return null;
  const before = drawnIndex.value >= 0 ? log.value.stateAt(drawnIndex.value - 1) : after;
  /** @type {Motions} */
  const motions = record.value ? motionsOf(before, record.value) : new Map();
  return { before, after, motions };
});

const movingPhases = computed(
  () => new Set([...(scene.value?.motions.values() ?? [])].flat().map((motion) => motion.phase)),
);
/** Subscribe to the phases in which blocks change, so that painters are idle during other phases. */
export const watchMotions = () => [...movingPhases.value].map(phase);

/**
 * Return the look of a block at `progress` of its record.
 * @param {Scene} scene @param {number} id @param {Progress} progress
 */
export function lookAt({ before, after, motions }, id, progress) {
  const moves = motions.get(id);
  const from = moves ? before : after;
  const look = restingLook(from.blocks[id], ownersByBlock(from).get(id) ?? [], from.block_size);
  return moves ? movingLook(look, moves, progress) : look;
}

/** The current free queues as text, so that dependents update only when a block moves and not in every frame. */
const queueText = computed(() => {
  watchMotions();
  return scene.value ? JSON.stringify(movingQueues(scene.value.before, scene.value.motions, phasesNow())) : "[[]]";
});
/** The free queue of each block group, as lists of block ids. */
export const queuesNow = computed(() => /** @type {number[][]} */ (JSON.parse(queueText.value)));

/** Whether the run allocates contiguous regions (`first_fit`). Free blocks then form holes, and there is no queue. */
export const isContiguous = computed(() => log.value?.header.engine.strategy === "first_fit");

/**
 * Return each block's place in its group's free queue, from 1. Empty for contiguous allocation.
 * @param {number[][]} queues
 */
export const placesOf = (queues) =>
  new Map(isContiguous.value ? [] : queues.flatMap((queue) => queue.map((id, i) => [id, i + 1])));

/** Whether a block of the queue has a hash at the current progress. @param {number} id */
export const isCachedNow = (id) => scene.value !== null && lookAt(scene.value, id, phasesNow()).hash > 0.5;

const arrivingText = computed(() => {
  if (!scene.value) return "";
  watchMotions();
  const progress = phasesNow();
  return [...scene.value.motions.values()]
    .flat()
    .flatMap((motion) =>
      (motion.op.type === "allocate" || motion.op.type === "share") && progressOf(motion, progress) < 1
        ? [placeKey(motion.op.seq_id, motion.block)]
        : [],
    )
    .join();
});
/** Key of a block in a sequence's table, as in `arriving`. @type {(seq: number, block: number) => string} */
export const placeKey = (seq, block) => `${seq}:${block}`;
/** Table entries whose block is still moving into the table; other tables may already contain it. */
export const arriving = computed(() => new Set(arrivingText.value.split(",")));

/** Slots read in the drawn record, for the shown layer and head: weight relative to its row's maximum, by slot. */
export const reads = computed(() => {
  captureVersion.value;
  /** @type {Map<number, number>} */
  const found = new Map();
  const [run, now] = [log.value, state.value];
  if (!run || !now) return found;
  const drawn = run.records[drawnIndex.value];
  for (const entry of record.value?.batch ?? []) {
    const query = endOf(drawn, entry) - 1;
    const row = attentionRow(run, drawnIndex.value, entry.seq_id, layer.value, head.value, query);
    const group = groupOfLayer(run.groups, layer.value, now.sequences.get(entry.seq_id)?.instance ?? 0);
    const table = run.tablesAtCompute(drawnIndex.value, entry.seq_id)?.[group];
    if (!row || !table) continue;
    for (let i = 0; i < row.weights.length; i++) {
      const place = slotOf(table, now.block_size, row.keyStart + i);
      if (place) found.set(place.slot, Math.max(found.get(place.slot) ?? 0, row.weights[i] / (row.max || 1)));
    }
  }
  return found;
});

/** Brightness of reads: highest in the middle of `attend`, 0 at its end. @param {Progress} progress */
export const glow = (progress) => Math.sin(Math.PI * progress.attend);
