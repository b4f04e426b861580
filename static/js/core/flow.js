// Flow of one sequence through the engine's components in one record: inputs, outputs and time of each. Pure.

import { outputIn } from "./drafts.js";
import { figuresByGroup } from "./groups.js";
import { ownAtCompute, ownGroups, placesOf } from "./instances.js";
import { labelText, loneLabel } from "./labels.js";
import { slotOf } from "./metrics.js";
import { timelineOf } from "./timeline.js";

/** @import {TraceLog} from "./log.js" */
/** @import {BatchEntry, StepRecord} from "./trace.js" */

/** Strategies that store K and V in the slots of one pool. */
const POOLED = new Set(["paged", "first_fit", "contiguous"]);

/**
 * @typedef {{text: string, id: number, probability: number}} Chosen
 * @typedef {object} Flow
 * @property {string} request
 * @property {number} submittedIn record
 * @property {number[]} promptIds
 * @property {Uint8Array[]} promptBytes
 * @property {number | null} tokenize seconds for all texts of the submission; null: unknown
 * @property {boolean} isStep whether the record computed anything
 * @property {boolean} isSubmission whether the request was submitted in it
 * @property {number} waiting sequences before the record
 * @property {number} running
 * @property {number} seqs in the step
 * @property {number} tokens in the step
 * @property {number | null} budget token limit of a step; null: unlimited, without a cache
 * @property {BatchEntry | null} entry of this sequence; null if it is not in the step
 * @property {number[]} taken blocks allocated to it in the record
 * @property {number} hit tokens found in the prefix cache in the record
 * @property {number} free blocks without an owner after the record
 * @property {{first: number, last: number} | null} slots written with its tokens' K and V; null if the sequence has its
 * own tensors or there is no cache
 * @property {Chosen | null} chosen
 * @property {Uint8Array[]} output bytes of its output tokens after the record
 * @property {string | null} end finish reason in the record
 * @property {{n: number, all: number} | null} threads of the forward pass, if fewer than all
 * @property {{schedule: number, draft: number, prepare: number, forward: number, sample: number, detokenize: number}}
 *   seconds of the step; `draft` is part of `schedule`, `sample` excludes `detokenize`
 */

/**
 * @param {TraceLog} log
 * @param {number} index record
 * @param {number} seqId
 * @returns {Flow | null} null if the sequence does not exist yet
 */
export function flowOf(log, index, seqId) {
  const record = log.records[index];
  const seq = record && log.stateAt(index).sequences.get(seqId);
  if (!seq) return null;
  const before = log.stateAt(index - 1);
  const submittedIn = submissionOf(log, seqId);
  const { ops = [], batch = [], timing } = record;
  const entry = batch.find((one) => one.seq_id === seqId) ?? null;
  const own = ops.filter((op) => "seq_id" in op && op.seq_id === seqId);
  const lookup = own.find((op) => op.type === "lookup");
  const finish = own.find((op) => op.type === "finish");
  const output = outputIn(record, seqId);
  const detokenize = timing.detokenize ?? 0;
  const { strategy, max_num_batched_tokens: budget } = log.header.engine;
  return {
    request: seq.request_id,
    submittedIn,
    promptIds: seq.token_ids.slice(0, seq.num_prompt_tokens),
    promptBytes: seq.token_bytes.slice(0, seq.num_prompt_tokens),
    tokenize: log.records[submittedIn]?.timing.tokenize || null,
    isStep: record.kind === "step",
    isSubmission: index === submittedIn,
    waiting: placesOf(before, before.waiting, seq.instance).length,
    running: placesOf(before, before.running, seq.instance).length,
    seqs: batch.length,
    tokens: batch.reduce((sum, one) => sum + one.token_ids.length, 0),
    budget: strategy === "none" ? null : Number(budget),
    entry,
    taken: own.flatMap((op) => (op.type === "allocate" ? [op.block_id] : [])),
    hit: lookup?.type === "lookup" ? lookup.num_hit_tokens : 0,
    free: freeBlocks(log.stateAt(index), seq.instance),
    slots: entry && slotsOf(log, index, entry),
    chosen: output
      ? {
          text: labelText(loneLabel(output.token_bytes)),
          id: output.token_id,
          probability: Math.exp(output.logprob),
        }
      : null,
    output: seq.token_bytes.slice(seq.num_prompt_tokens),
    end: finish?.type === "finish" ? finish.reason : null,
    threads: timing.threads ? { n: timing.threads, all: log.header.machine?.num_threads ?? 0 } : null,
    seconds: {
      schedule: timing.schedule ?? 0,
      draft: timing.draft ?? 0,
      prepare: timing.prepare ?? 0,
      forward: timing.forward ?? 0,
      sample: Math.max(0, (timing.sample ?? 0) - detokenize),
      detokenize,
    },
  };
}

/**
 * Return the number of blocks in an instance's pool without an owner.
 * @param {import("./state_access.js").State} state
 * @param {number} instance
 */
function freeBlocks(state, instance) {
  const figures = figuresByGroup(state);
  const free = ownGroups(state.block_groups, instance).map(
    (group) => state.block_groups[group].num_blocks - figures[group].blocks_held,
  );
  return free.reduce((sum, count) => sum + count, 0);
}

/**
 * Return the record in which the request was submitted; for a fork, that of its parent.
 * @param {TraceLog} log
 * @param {number} seqId
 */
function submissionOf(log, seqId) {
  let [first] = timelineOf(log, seqId)?.events ?? [];
  for (;;) {
    const op = first && log.records[first.record].ops?.[first.at];
    if (op?.type !== "fork") return first?.record ?? 0;
    [first] = timelineOf(log, op.parent_seq_id)?.events ?? [];
  }
}

/**
 * Return the first and last slot of the tokens, in the first group of layers.
 * @param {TraceLog} log
 * @param {number} index
 * @param {BatchEntry} entry
 */
function slotsOf(log, index, { seq_id, start, token_ids }) {
  const [table] = ownAtCompute(log, index, seq_id).tables;
  const { block_size: size, strategy } = log.header.engine;
  if (!table || typeof size !== "number" || !POOLED.has(String(strategy ?? "paged"))) return null;
  const [first, last] = [start, start + token_ids.length - 1].map((position) => slotOf(table, size, position));
  return first && last ? { first: first.slot, last: last.slot } : null;
}
