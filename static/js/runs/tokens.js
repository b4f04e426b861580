// Tokens of one sequence in several runs, by position: the common part and the first difference. Pure.

import { labelText, loneLabel, tokenLabels } from "../core/labels.js";
import { recordAt, stepRecords } from "./steps.js";

/** @import {TraceLog} from "../core/log.js" */

/**
 * Token that a run chose, with its record and step. `chosen`: set by the user instead of sampled.
 * @typedef {{token_id: number, token_bytes: Uint8Array, record: number, step: number, chosen?: boolean}} Token
 *
 * First position with different tokens, the step by which all runs reached it, and the tokens there. A run without a
 * token has ended before.
 * @typedef {{place: number, step: number, tokens: (Token | undefined)[]}} Difference
 *
 * `same`: length of the common prefix of all lanes.
 * @typedef {{lanes: Token[][], same: number, difference: Difference | null}} Aligned
 */

/**
 * Align the lanes of one sequence. `ended(i)`: whether lane i gets no more tokens. A lane that ended before a position
 * where others have a token differs there. One that is only behind does not.
 * @param {Token[][]} lanes
 * @param {(lane: number) => boolean} ended
 * @returns {Aligned}
 */
export function align(lanes, ended) {
  const count = Math.max(0, ...lanes.map((lane) => lane.length));
  for (let place = 0; place < count; place++) {
    if (isSame(lanes, place)) continue;
    if (lanes.some((lane, i) => place >= lane.length && !ended(i))) return { lanes, same: place, difference: null };
    return { lanes, same: place, difference: differenceAt(lanes, place) };
  }
  return { lanes, same: count, difference: null };
}

/** @param {Token[][]} lanes @param {number} place @returns {Difference} */
export function differenceAt(lanes, place) {
  const tokens = lanes.map((lane) => lane.at(place));
  return { place, step: Math.max(0, ...tokens.map((token) => token?.step ?? 0)), tokens };
}

/** @param {Token[][]} lanes @param {number} place */
const isSame = (lanes, place) => lanes.every((lane) => lane[place]?.token_id === lanes[0][place]?.token_id);

/**
 * Return whether the lanes differ at `place`: at the first difference, or after it with unequal tokens.
 * @param {Aligned} aligned
 * @param {number} place
 */
export const differsAt = ({ lanes, difference }, place) =>
  difference !== null && place >= difference.place && !isSame(lanes, place);

/**
 * Return the range of positions in the document, [from, to): around the first difference, or else at the end.
 * @param {Aligned} aligned
 * @param {{before: number, after: number}} span
 * @returns {[number, number]}
 */
export function placesShown({ lanes, same }, { before, after }) {
  const count = Math.max(0, ...lanes.map((lane) => lane.length));
  return [Math.max(0, same - before), Math.min(count, same + after)];
}

/**
 * Return the tokens chosen by the log's sequences up to its `step`-th step, in the order of submission.
 * @param {TraceLog} log
 * @param {number} step
 * @returns {Map<number, Token[]>} by seq_id
 */
export function chosenBy(log, step) {
  const found = new Map();
  const records = stepRecords(log);
  // records between two steps belong to the earlier one
  const next = step < records.length ? records[step] : log.length;
  for (let index = 0; index < next; index++) {
    const { ops = [], outputs = [], step: at } = log.records[index];
    for (const op of ops)
      if (op.type === "submit" || op.type === "fork") found.set(op.seq_id, found.get(op.seq_id) ?? []);
    for (const { seq_id, token_id, token_bytes } of outputs)
      found.get(seq_id).push({ token_id, token_bytes, record: index, step: at });
  }
  return found;
}

/**
 * Return the sequences of the logs after `step` steps, each aligned over the logs.
 * @param {TraceLog[]} logs
 * @param {number} step
 * @returns {(Aligned & {seq_id: number})[]}
 */
export function sequencesAt(logs, step) {
  const chosen = logs.map((log) => chosenBy(log, step));
  return [...new Set(chosen.flatMap((lane) => [...lane.keys()]))].map((seq_id) => {
    const lanes = chosen.map((lane) => lane.get(seq_id) ?? []);
    return { seq_id, ...align(lanes, (i) => finishedBy(logs[i], step, seq_id)) };
  });
}

/**
 * Return whether a sequence is finished after the log's `step`-th step.
 * @param {TraceLog} log
 * @param {number} step
 * @param {number} seqId
 */
function finishedBy(log, step, seqId) {
  const index = recordAt(log, step);
  return index >= 0 && log.stateAt(index).sequences.get(seqId)?.status === "finished";
}

/**
 * Return the first difference in any sequence's tokens up to `step`, ordered by step, or null.
 * @param {TraceLog[]} logs
 * @param {number} step
 * @returns {(Difference & {seq_id: number}) | null}
 */
export function firstTokenDifference(logs, step) {
  const found = sequencesAt(logs, step).flatMap(({ seq_id, difference }) =>
    difference ? [{ seq_id, ...difference }] : [],
  );
  return found.sort((a, b) => a.step - b.step)[0] ?? null;
}

/**
 * Return the labels of consecutive tokens, with fragments of characters marked.
 * @param {Uint8Array[]} bytes
 * @returns {string[]}
 */
export const labelsOfBytes = (bytes) => tokenLabels(bytes).map(labelText);

/** Return the labels of a lane's tokens. @param {Token[]} tokens */
export const labelsOf = (tokens) => labelsOfBytes(tokens.map((token) => token.token_bytes));

/** Return the label of a single token. @param {Uint8Array} bytes @returns {string} */
export const labelOf = (bytes) => labelText(loneLabel(bytes));
