// Prepares a comparison of two runs (/api/compare) for the page: aligned tokens of each pair of sequences, rows of
// figures, series over steps. Pure.

import { differenceAt, labelOf, labelsOf } from "../../runs/tokens.js";

/** @import {Token} from "../../runs/tokens.js" */

/**
 * @typedef {import("../../core/wire.js").Answers["/api/compare"]} Answer
 * @typedef {Answer["sequences"][number]} SequencePair
 * @typedef {NonNullable<SequencePair["a"]>} SequenceFigures
 * @typedef {SequenceFigures["tokens"][number]} JsonToken
 * @typedef {NonNullable<Answer["first_op"]>} OpDifference
 * @typedef {NonNullable<OpDifference["a"]>} Op
 * @typedef {Answer["a"]["series"][number]} SeriesPoint
 * @typedef {"a" | "b"} Side
 * @typedef {Pick<SequencePair, "request_id" | "number" | "member" | "a" | "b" | "same_prompt" | "equal_tokens">
 *   & import("../../runs/tokens.js").Aligned} Pair
 */

/** @type {Side[]} */
export const SIDES = ["a", "b"];

/** @typedef {Pick<Answer["runs"][number], "status">} Live */

/** Whether a run is a fork that is still repeating the records before its fork point. @param {Live} run */
const isCatchingUp = ({ status }) => Boolean(status.fork?.active);

/** Whether a run advances without being stepped. @param {Live} run */
export const isGrowing = (run) => isCatchingUp(run) || (run.status.mode === "running" && run.status.unfinished > 0);

/** @param {Live} run */
const isPaused = ({ status }) => status.mode === "paused" && status.unfinished > 0;

/** Whether one of these runs can be stepped, now or soon. @param {Live[]} runs */
export const canStep = (runs) => runs.some((run) => isPaused(run) || isCatchingUp(run));

/**
 * Return the runs that can be stepped now: none while a fork is catching up, since it would be left behind.
 * @template {Live} Run
 * @param {Run[]} runs
 */
export const steppable = (runs) => (runs.some(isCatchingUp) ? [] : runs.filter(isPaused));

/** Decode bytes from hexadecimal text. @param {string} hex */
export const bytesOf = (hex) => Uint8Array.from(hex.match(/../g) ?? [], (pair) => parseInt(pair, 16));

/** @param {JsonToken} token @returns {Token} */
const tokenOf = (token) => ({ ...token, token_bytes: bytesOf(token.token_bytes) });

/** Label of a sampled token on its own. @param {JsonToken} token */
export const wordOf = (token) => labelOf(bytesOf(token.token_bytes));

/**
 * Align a pair's tokens as lanes. After different prompts, no token counts as equal.
 * @param {SequencePair} pair
 * @returns {Pair}
 */
export function alignedPair(pair) {
  const lanes = SIDES.map((side) => (pair[side]?.tokens ?? []).map(tokenOf));
  const same = pair.same_prompt ? pair.equal_tokens : 0;
  return { ...pair, lanes, same, difference: pair.difference && differenceAt(lanes, same) };
}

const MAX_UNFOLDED = 4; // maximum number of sequences of which all lanes are shown
const MAX_VISIBLE = 8; // maximum number of visible differing pairs

/**
 * Fold pairs if there are more than `MAX_UNFOLDED`: pairs whose tokens are equal to the end in both runs, and differing
 * pairs after the first `MAX_VISIBLE` ones.
 * @param {SequencePair[]} sequences
 */
export function foldedPairs(sequences) {
  /** @type {SequencePair[]} */
  const none = [];
  if (sequences.length <= MAX_UNFOLDED) return { shown: sequences, differing: none, same: none };
  const equal = (/** @type {SequencePair} */ { a, b, same_prompt: same, equal_tokens: n }) =>
    Boolean(a && b) && same && n === a?.tokens.length && n === b?.tokens.length;
  const differing = sequences.filter((pair) => !equal(pair));
  return {
    shown: differing.slice(0, MAX_VISIBLE),
    differing: differing.slice(MAX_VISIBLE),
    same: sequences.filter(equal),
  };
}

/**
 * Return the label of the token that an operation sampled, or null if it samples none.
 * @param {Pick<Answer, "sequences">} comparison @param {Side} side @param {Op | null} op
 * @param {number} record
 */
export function chosenToken({ sequences }, side, op, record) {
  if (op?.type === "choose") return labelOf(bytesOf(op.token_bytes));
  if (op?.type !== "sample") return null;
  const tokens = sequences.map((pair) => pair[side]).find((each) => each?.seq_id === op.seq_id)?.tokens ?? [];
  const place = tokens.findIndex((token) => token.record === record);
  return place < 0 ? null : labelsOf(tokens.map(tokenOf))[place];
}

/**
 * Whether a run's log does not report a total. The server's answer then contains a placeholder value.
 * @param {Pick<Answer, "unsaid">} comparison @param {Side} side @param {string} name
 */
export const isUnsaid = ({ unsaid }, side, name) => unsaid[side].includes(name);

/** @typedef {"count" | "bytes" | "flops" | "seconds"} Kind of value */

/**
 * Totals of a run, in groups.
 * @typedef {Exclude<keyof Answer["a"]["totals"], "operations">} Figure
 * @type {[group: string, rows: [name: Figure, kind: Kind][]][]}
 */
export const FIGURES = [
  [
    "memory",
    [
      ["blocks_peak", "count"],
      ["bytes_peak", "bytes"],
      ["wasted_peak", "bytes"],
    ],
  ],
  [
    "decisions",
    [
      ["preemptions", "count"],
      ["evictions", "count"],
      ["copies", "count"],
      ["swapped_bytes", "bytes"],
    ],
  ],
  [
    "cache",
    [
      ["asked_tokens", "count"],
      ["hit_tokens", "count"],
    ],
  ],
  [
    "work",
    [
      ["num_steps", "count"],
      ["computed_tokens", "count"],
      ["output_tokens", "count"],
      ["flops", "flops"],
      ["bytes_moved", "bytes"],
    ],
  ],
  ["time", [["seconds", "seconds"]]],
];

/**
 * Return the types of operations whose counts differ between the runs.
 * @param {Pick<Answer, Side>} comparison
 * @returns {[type: string, a: number, b: number][]}
 */
export function differingOperations({ a, b }) {
  const [countsA, countsB] = [a.totals.operations, b.totals.operations];
  const types = [...new Set([...Object.keys(countsA), ...Object.keys(countsB)])].sort();
  const times = types.map(
    (type) => /** @type {[string, number, number]} */ ([type, countsA[type] ?? 0, countsB[type] ?? 0]),
  );
  return times.filter(([, x, y]) => x !== y);
}

/**
 * Two series of `of(point)` over steps as step lines in a 1 × 1 box: lists of [x, y] with y from the bottom. `steps` is
 * the number of steps of the longer run, `max` the largest value.
 * @param {Pick<Answer, Side>} comparison @param {(point: SeriesPoint) => number} of
 */
export function linesOf(comparison, of) {
  const series = [comparison.a.series, comparison.b.series];
  const steps = Math.max(1, ...series.map((points) => points.at(-1)?.step ?? 0));
  const max = Math.max(0, ...series.flatMap((points) => points.map(of)));
  const line = (/** @type {SeriesPoint[]} */ points) =>
    points.flatMap((point) => [
      [(point.step - 1) / steps, max ? of(point) / max : 0],
      [point.step / steps, max ? of(point) / max : 0],
    ]);
  return { a: line(series[0]), b: line(series[1]), steps, max };
}
