// Two runs of the same requests compared, step by step: a healthy one and one with a fault. Pure, from the two logs alone.
//
// A step is counted in each log by itself; the `step`-th of one stands beside the `step`-th of the other. A run that has
// fewer stays at its last.

import { kindOf } from "../core/operation_kinds.js";
import { operationsOf } from "../core/operations.js";
import { stepRecords } from "./race.js";

/** Index of the record of a log's `step`-th step, of its last one if it took fewer; -1 before the first. */
export function recordAt(log, step) {
  const records = stepRecords(log);
  return records[Math.min(step, records.length) - 1] ?? -1;
}

/** Whether the log took a `step`-th step. */
export const tookStep = (log, step) => step >= 1 && step <= stepRecords(log).length;

/** What the log's sequences have chosen up to its `step`-th step: Map of seq_id -> [{token_id, bytes, step}], in the order of submission. */
export function chosenBy(log, step) {
  const found = new Map();
  const records = stepRecords(log);
  const next = step < records.length ? records[step] : log.length; // up to the next step: what came in between belongs to this one
  for (let index = 0; index < next; index++) {
    const record = log.records[index];
    for (const op of record.ops ?? [])
      if (op.type === "submit" || op.type === "fork") found.set(op.seq_id, found.get(op.seq_id) ?? []);
    for (const { seq_id, token_id, token_bytes } of record.outputs ?? [])
      found.get(seq_id).push({ token_id, bytes: token_bytes, step: record.step });
  }
  return found;
}

/** Whether nothing is left to compute for a sequence after the log's `step`-th step. */
function finishedBy(log, step, seqId) {
  const index = recordAt(log, step);
  return index >= 0 && log.stateAt(index).sequences.get(seqId)?.status === "finished";
}

/**
 * The sequences after `step` steps: [{seq_id, lanes: [chosen tokens, …], difference}]. `difference`: {place, step} of the
 * first chosen token that is not the same, `step` the one by which both lanes had theirs; null while there is none. A lane
 * that ended before that place differs there, one that has only not come so far does not.
 */
export function sequencesAt(logs, step) {
  const lanes = logs.map((log) => chosenBy(log, step));
  return [...new Set(lanes.flatMap((lane) => [...lane.keys()]))].map((seqId) => {
    const chosen = lanes.map((lane) => lane.get(seqId) ?? []);
    return { seq_id: seqId, lanes: chosen, difference: differenceOf(logs, step, seqId, chosen) };
  });
}

function differenceOf(logs, step, seqId, chosen) {
  for (let place = 0; place < Math.max(...chosen.map((lane) => lane.length)); place++) {
    if (chosen.every((lane) => lane[place]?.token_id === chosen[0][place]?.token_id)) continue;
    if (chosen.some((lane, i) => !lane[place] && !finishedBy(logs[i], step, seqId))) return null;
    return { place, step: Math.max(...chosen.map((lane) => lane[place]?.step ?? 0)) };
  }
  return null;
}

/** The first difference of tokens up to `step`: {seq_id, place, step, chosen: [the token there in each lane]}, or null. */
export function firstTokenDifference(logs, step) {
  const found = sequencesAt(logs, step).filter((seq) => seq.difference);
  found.sort((a, b) => a.difference.step - b.difference.step);
  if (!found.length) return null;
  const [{ seq_id, lanes, difference }] = found;
  return { seq_id, ...difference, chosen: lanes.map((lane) => lane[difference.place]) };
}

/** What guards and checks wrote into a record: [{rule, text, seq_id, block_id, said, counted}]. Older logs have sentences alone. */
export function objectionsIn({ integrity = "" }) {
  if (typeof integrity !== "string") return integrity;
  return integrity
    .split("; ")
    .filter(Boolean)
    .map((text) => ({ rule: "", text }));
}

/** The same of the log as far as its `step`-th step, each with its `step`, a sentence once. */
export function objections(log, step) {
  const found = new Map();
  for (const record of stepRecords(log)
    .slice(0, step)
    .map((index) => log.records[index]))
    for (const one of objectionsIn(record))
      if (!found.has(one.text)) found.set(one.text, { step: record.step, ...one });
  return [...found.values()];
}

/**
 * What each log decided in its `step`-th step that the other did not, as entries of `operationsOf`: [of the first, of the
 * second]. Both empty when they agree.
 */
export function differingDecisions(logs, step) {
  const told = logs.map((log) => decisionsOf(log, step));
  return told.map((mine, i) => [...mine].filter(([key]) => !told[1 - i].has(key)).map(([, entry]) => entry));
}

/** What both decided in their `step`-th step: [[entry of the first, entry of the second], …]. */
export function sharedDecisions(logs, step) {
  const [first, second] = logs.map((log) => decisionsOf(log, step));
  return [...first].filter(([key]) => second.has(key)).map(([key, entry]) => [entry, second.get(key)]);
}

function decisionsOf(log, step) {
  if (!tookStep(log, step)) return new Map();
  const entries = operationsOf(log, recordAt(log, step)).filter((entry) => !kindOf(entry.type).routine);
  return new Map(entries.map((entry) => [JSON.stringify([entry.layers, entry.parts]), entry]));
}

/**
 * A search for the first step at which `find(logs, step)` finds something ({step, …}; null: nothing), which remembers how far
 * it has looked while the logs grow. The search: (logs, step) -> what was found up to `step`, or null.
 */
export function firstOf(find) {
  const searches = new WeakMap(); // the last log -> {first: the other, at, found}
  return (logs, step) => {
    let known = searches.get(logs[1]);
    if (known?.first !== logs[0]) searches.set(logs[1], (known = { first: logs[0], at: 0, found: null }));
    while (!known.found && known.at < step) known.found = find(logs, ++known.at);
    return known.found && known.found.step <= step ? known.found : null;
  };
}

/** The first step up to `step` in which the logs decided differently: {step}, or null. */
export const firstDecisionDifference = firstOf((logs, at) =>
  differingDecisions(logs, at).some((entries) => entries.length) ? { step: at } : null,
);

/** Slots that a log says were written in its `step`-th step: [{seq_id, position, block, offset}], one for each sequence's last token in each block group. */
export function lastWrites(log, step) {
  if (!tookStep(log, step)) return [];
  const size = log.header.engine.block_size;
  return log.writesIn(recordAt(log, step)).flatMap(({ seq_id, start, num_tokens, block_tables }) => {
    const position = start + num_tokens - 1;
    return block_tables.map((table) => ({
      seq_id,
      position,
      block: table[Math.floor(position / size)],
      offset: position % size,
    }));
  });
}

/**
 * What the log's `step`-th step says that cannot be right, whoever wrote it:
 *
 *   shared_write  {seqs, block, offset}           several sequences wrote one slot
 *   foreign       {seq_id, blocks, there, own}    a sequence read blocks that others wrote with the tokens `there` (bytes) where it has `own`
 *   forgotten     {seq_id, known, computed}       a sequence was computed as if it had fewer tokens than the log gave it
 */
export function contradictions(log, step) {
  if (!tookStep(log, step)) return [];
  const index = recordAt(log, step);
  return [...sharedWrites(log, index), ...foreignBlocks(log, index), ...forgottenTokens(log, index)];
}

/** The first thing that cannot be right in the second log, up to `step`: a contradiction with its step and a `seq_id`, or null. */
export const firstContradiction = firstOf(([, log], at) => {
  const [first] = contradictions(log, at);
  return first ? { seq_id: first.seqs?.[0], ...first, step: at } : null;
});

function sharedWrites(log, index) {
  const size = log.header.engine.block_size;
  const writers = new Map(); // slot -> Set of sequences
  for (const { seq_id, start, num_tokens, block_tables } of log.writesIn(index))
    for (const table of block_tables)
      for (let position = start; position < start + num_tokens; position++) {
        const slot = table[Math.floor(position / size)] * size + (position % size);
        writers.set(slot, (writers.get(slot) ?? new Set()).add(seq_id));
      }
  return [...writers]
    .filter(([, seqs]) => seqs.size > 1)
    .map(([slot, seqs]) => ({
      kind: "shared_write",
      seqs: [...seqs],
      block: Math.floor(slot / size),
      offset: slot % size,
    }));
}

function foreignBlocks(log, index) {
  const state = log.stateAt(index);
  const size = log.header.engine.block_size;
  const found = [];
  const read = (log.records[index].batch ?? []).flatMap((entry) =>
    (log.tablesAtCompute(index, entry.seq_id) ?? []).map((table) => ({ ...entry, table })),
  );
  for (const { seq_id, start, table } of read) {
    const own = state.sequences.get(seq_id);
    const wrong = new Map(); // block -> positions read from it that others wrote, with other tokens among them
    for (let position = 0; position < start; position++) {
      const block = table[Math.floor(position / size)];
      const origin = block >= 0 ? log.slotOrigin(block * size + (position % size), index) : null;
      if (!origin || origin.seq_id === seq_id) continue;
      const there = computedToken(log, origin);
      if (there !== own.token_ids[position]) wrong.set(block, []);
    }
    for (let position = 0; position < start; position++) wrong.get(table[Math.floor(position / size)])?.push(position);
    if (!wrong.size) continue;
    const positions = [...wrong.values()].flat();
    const words = wordsOf(state);
    found.push({
      kind: "foreign",
      seq_id,
      blocks: [...wrong.keys()],
      there: positions.map((position) =>
        words.get(
          computedToken(log, log.slotOrigin(table[Math.floor(position / size)] * size + (position % size), index)),
        ),
      ),
      own: positions.map((position) => own.token_bytes[position]),
    });
  }
  return found;
}

/** The token that a slot's writer had there. */
function computedToken(log, { record, seq_id, position }) {
  const entry = log.records[record].batch.find((e) => e.seq_id === seq_id);
  return entry.token_ids[position - entry.start];
}

/** Bytes of every token that some sequence of the run has, by id. */
function wordsOf(state) {
  const known = new Map();
  for (const { token_ids, token_bytes } of state.sequences.values())
    token_ids.forEach((id, i) => known.set(id, token_bytes[i]));
  return known;
}

function forgottenTokens(log, index) {
  if (index < 1) return [];
  const before = log.stateAt(index - 1);
  return (log.records[index].batch ?? [])
    .filter((entry) => entry.samples)
    .map((entry) => ({
      kind: "forgotten",
      seq_id: entry.seq_id,
      known: before.sequences.get(entry.seq_id)?.token_ids.length ?? 0,
      computed: entry.context_len,
    }))
    .filter(({ known, computed }) => computed < known);
}
