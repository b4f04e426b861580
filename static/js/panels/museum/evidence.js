// Evidence in the logs: objections of guards and checks, contradictions within a run, and decisions that differ between
// the runs. Pure.

import { slotOf } from "../../core/metrics.js";
import { kindOf } from "../../core/operation_kinds.js";
import { operationsOf } from "../../core/operations.js";
import { firstOf, hasStep, recordAt, stepRecords } from "../../runs/steps.js";

/** @import {TraceLog} from "../../core/log.js" */
/** @import {Entry} from "../../core/operations.js" */
/** @import {Objection, StepRecord} from "../../core/trace.js" */

/**
 * Several sequences wrote one slot.
 * @typedef {{kind: "shared_write", seqs: number[], block: number, offset: number}} SharedWrite
 * A sequence read blocks that others wrote: they hold the tokens `there` (bytes) where the sequence has `own`.
 * @typedef {{kind: "foreign", seq_id: number, blocks: number[], there: Uint8Array[], own: Uint8Array[]}} Foreign
 * A sequence was computed with fewer tokens than it has in the log.
 * @typedef {{kind: "forgotten", seq_id: number, known: number, computed: number}} Forgotten
 * @typedef {SharedWrite | Foreign | Forgotten} Contradiction
 */

const EMPTY = new Uint8Array();

/**
 * Return the objections of guards and checks in a record. Older logs have only sentences.
 * @param {Partial<StepRecord>} record
 * @returns {Objection[]}
 */
export function objectionsIn({ integrity = "" }) {
  if (typeof integrity !== "string") return integrity;
  return integrity
    .split("; ")
    .filter(Boolean)
    .map((text) => ({ rule: "", text }));
}

/**
 * Return the objections of a log up to its `step`-th step, each text once, with its `step`.
 * @param {TraceLog} log @param {number} step
 * @returns {(Objection & {step: number})[]}
 */
export function objections(log, step) {
  const found = new Map();
  for (const index of stepRecords(log).slice(0, step))
    for (const one of objectionsIn(log.records[index]))
      if (!found.has(one.text)) found.set(one.text, { step: log.records[index].step, ...one });
  return [...found.values()];
}

/**
 * Return the last slot that each sequence wrote in the log's `step`-th step, per block group.
 * @param {TraceLog} log @param {number} step
 */
export function lastWrites(log, step) {
  if (!hasStep(log, step)) return [];
  const { block_size: size } = log.tail;
  return log.writesIn(recordAt(log, step)).flatMap(({ seq_id, start, num_tokens, block_tables }) => {
    const position = start + num_tokens - 1;
    return block_tables.flatMap((table) => {
      const slot = slotOf(table, size, position);
      return slot ? [{ seq_id, position, block: slot.block, offset: slot.offset }] : [];
    });
  });
}

/**
 * Return the contradictions in the log's `step`-th step, independent of the engine that wrote it.
 * @param {TraceLog} log @param {number} step
 * @returns {Contradiction[]}
 */
export function contradictions(log, step) {
  if (!hasStep(log, step)) return [];
  const index = recordAt(log, step);
  return [...sharedWrites(log, index), ...foreignBlocks(log, index), ...forgottenTokens(log, index)];
}

/** First contradiction in the second log up to `step`, with its step and a sequence, or null. */
export const firstContradiction = firstOf(([, log], step) => {
  const [first] = contradictions(log, step);
  return first ? { ...first, seq_id: first.kind === "shared_write" ? first.seqs[0] : first.seq_id, step } : null;
});

/** @param {TraceLog} log @param {number} index @returns {SharedWrite[]} */
function sharedWrites(log, index) {
  const { block_size: size } = log.tail;
  /** @type {Map<number, Set<number>>} slot -> sequences */
  const writers = new Map();
  for (const { seq_id, start, num_tokens, block_tables } of log.writesIn(index))
    for (const table of block_tables)
      for (let position = start; position < start + num_tokens; position++) {
        const slot = slotOf(table, size, position)?.slot;
        if (slot !== undefined) writers.set(slot, (writers.get(slot) ?? new Set()).add(seq_id));
      }
  const shared = [...writers].filter(([, seqs]) => seqs.size > 1);
  return shared.map(([slot, seqs]) => ({
    kind: "shared_write",
    seqs: [...seqs],
    block: Math.floor(slot / size),
    offset: slot % size,
  }));
}

/** @param {TraceLog} log @param {number} index @returns {Foreign[]} */
function foreignBlocks(log, index) {
  const state = log.stateAt(index);
  const { block_size: size } = log.tail;
  const bytes = bytesById(state);
  /** @type {Foreign[]} */
  const found = [];
  for (const { seq_id, start } of log.records[index].batch ?? [])
    for (const table of log.tablesAtCompute(index, seq_id) ?? []) {
      const own = state.sequences.get(seq_id);
      if (!own) continue;
      const read = Array.from({ length: start }, (_, position) => position).flatMap((position) => {
        const slot = slotOf(table, size, position);
        const origin = slot && log.slotOrigin(slot.slot, index);
        if (!origin) return [];
        const token = computedToken(log, origin);
        const wrong = origin.seq_id !== seq_id && token !== own.token_ids[position];
        return [{ block: slot.block, wrong, there: bytes.get(token), own: own.token_bytes[position] }];
      });
      const blocks = [...new Set(read.filter(({ wrong }) => wrong).map(({ block }) => block))];
      if (!blocks.length) continue;
      const ordered = blocks.flatMap((id) => read.filter(({ block }) => block === id));
      found.push({
        kind: "foreign",
        seq_id,
        blocks,
        there: ordered.map(({ there }) => there ?? EMPTY),
        own: ordered.map((one) => one.own),
      });
    }
  return found;
}

/**
 * Return the token that was written to a slot.
 * @param {TraceLog} log
 * @param {{record: number, seq_id: number, position: number}} origin
 */
function computedToken(log, { record, seq_id, position }) {
  const entry = log.records[record].batch?.find((e) => e.seq_id === seq_id);
  return entry ? entry.token_ids[position - entry.start] : -1;
}

/**
 * Return the bytes of every token of any sequence of the run, by token id.
 * @param {ReturnType<TraceLog["stateAt"]>} state
 * @returns {Map<number, Uint8Array>}
 */
function bytesById(state) {
  const bytesByToken = new Map();
  for (const { token_ids, token_bytes } of state.sequences.values())
    token_ids.forEach((id, i) => bytesByToken.set(id, token_bytes[i]));
  return bytesByToken;
}

/** @param {TraceLog} log @param {number} index @returns {Forgotten[]} */
function forgottenTokens(log, index) {
  if (index < 1) return [];
  const before = log.stateAt(index - 1);
  return (log.records[index].batch ?? []).flatMap(({ seq_id, samples, context_len: computed }) => {
    const known = before.sequences.get(seq_id)?.token_ids.length ?? 0;
    return samples && computed < known ? [{ kind: /** @type {const} */ ("forgotten"), seq_id, known, computed }] : [];
  });
}

/**
 * Return the decisions of each log in its `step`-th step that the other did not make, as [first, second]. Both are
 * empty if the logs agree.
 * @param {TraceLog[]} logs @param {number} step
 * @returns {Entry[][]}
 */
export function differingDecisions(logs, step) {
  const decisions = logs.map((log) => decisionsOf(log, step));
  return decisions.map((own, i) => [...own].filter(([key]) => !decisions[1 - i].has(key)).map(([, entry]) => entry));
}

/**
 * Return the decisions that both logs made in their `step`-th step: [[entry of the first, entry of the second], …].
 * @param {TraceLog[]} logs @param {number} step
 * @returns {Entry[][]}
 */
export function sharedDecisions(logs, step) {
  const [first, second] = logs.map((log) => decisionsOf(log, step));
  return [...first].flatMap(([key, entry]) => {
    const other = second.get(key);
    return other ? [[entry, other]] : [];
  });
}

/** @param {TraceLog} log @param {number} step @returns {Map<string, Entry>} entries by their content */
function decisionsOf(log, step) {
  if (!hasStep(log, step)) return new Map();
  const entries = operationsOf(log, recordAt(log, step)).filter((entry) => !kindOf(entry.type).routine);
  return new Map(entries.map((entry) => [JSON.stringify([entry.layers, entry.parts]), entry]));
}

/** First step up to `step` with different decisions as {step}, or null. */
export const firstDecisionDifference = firstOf((logs, at) =>
  differingDecisions(logs, at).some((entries) => entries.length) ? { step: at } : null,
);
