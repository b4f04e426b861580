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

/** Whether a fork is still catching up with its fork point. @param {Live} run */
const comes = ({ status }) => Boolean(status.fork?.active);

/** Whether a run advances without being stepped. @param {Live} run */
export const grows = (run) => comes(run) || (run.status.mode === "running" && run.status.unfinished > 0);

/** @param {Live} run */
const waits = ({ status }) => status.mode === "paused" && status.unfinished > 0;

/** Whether one of these runs can be stepped, now or soon. @param {Live[]} runs */
export const canGoOn = (runs) => runs.some((run) => waits(run) || comes(run));

/**
 * Return the runs that can be stepped now: none while a fork is catching up, since it would be left behind.
 * @template {Live} Run
 * @param {Run[]} runs
 */
export const thatGoOn = (runs) => (runs.some(comes) ? [] : runs.filter(waits));

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

const FEW = 4; // number of sequences up to which all lanes are shown
const MAX = 8; // maximum number of visible lanes that differ

/**
 * Fold lanes if there are more than a few sequences: those with equal tokens to the end in both runs, and those beyond
 * the first differing ones.
 * @param {SequencePair[]} sequences
 */
export function foldedPairs(sequences) {
  /** @type {SequencePair[]} */
  const none = [];
  if (sequences.length <= FEW) return { shown: sequences, apart: none, same: none };
  const equal = (/** @type {SequencePair} */ { a, b, same_prompt: same, equal_tokens: n }) =>
    Boolean(a && b) && same && n === a?.tokens.length && n === b?.tokens.length;
  const apart = sequences.filter((pair) => !equal(pair));
  return { shown: apart.slice(0, MAX), apart: apart.slice(MAX), same: sequences.filter(equal) };
}

/**
 * Return the label of the token that an operation sampled, or null if it samples none.
 * @param {Pick<Answer, "sequences">} comparison
 * @param {Side} side
 * @param {Op | null} op
 * @param {number} record
 * @returns {string | null}
 */
export function chosenToken({ sequences }, side, op, record) {
  if (op?.type === "choose") return labelOf(bytesOf(op.token_bytes));
  if (op?.type !== "sample") return null;
  const tokens = sequences.map((pair) => pair[side]).find((each) => each?.seq_id === op.seq_id)?.tokens ?? [];
  const place = tokens.findIndex((token) => token.record === record);
  return place < 0 ? null : labelsOf(tokens.map(tokenOf))[place];
}

/**
 * Whether a run's log does not report a figure of the whole run; the answer then holds a placeholder value.
 * @param {Pick<Answer, "unsaid">} comparison
 * @param {Side} side
 * @param {string} name
 */
export const isUnsaid = ({ unsaid }, side, name) => unsaid[side].includes(name);

/** @typedef {"count" | "bytes" | "flops" | "seconds"} Kind of value */

/**
 * Figures of a whole run, in groups.
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
 * Return the operations whose counts differ between the runs.
 * @param {Pick<Answer, Side>} comparison
 * @returns {[type: string, a: number, b: number][]}
 */
export function operationsThatDiffer({ a, b }) {
  const [mine, theirs] = [a.totals.operations, b.totals.operations];
  const types = [...new Set([...Object.keys(mine), ...Object.keys(theirs)])].sort();
  const times = types.map(
    (type) => /** @type {[string, number, number]} */ ([type, mine[type] ?? 0, theirs[type] ?? 0]),
  );
  return times.filter(([, x, y]) => x !== y);
}

/**
 * Two series of `of(point)` over steps as step lines in a 1 × 1 box: lists of [x, y] with y from the bottom. `steps`:
 * of the longer run; `most`: the largest value.
 * @param {Pick<Answer, Side>} comparison
 * @param {(point: SeriesPoint) => number} of
 */
export function linesOf(comparison, of) {
  const series = [comparison.a.series, comparison.b.series];
  const steps = Math.max(1, ...series.map((points) => points.at(-1)?.step ?? 0));
  const most = Math.max(0, ...series.flatMap((points) => points.map(of)));
  const line = (/** @type {SeriesPoint[]} */ points) =>
    points.flatMap((point) => [
      [(point.step - 1) / steps, most ? of(point) / most : 0],
      [point.step / steps, most ? of(point) / most : 0],
    ]);
  return { a: line(series[0]), b: line(series[1]), steps, most };
}
