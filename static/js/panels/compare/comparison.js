// A comparison of two runs as the server made it (/api/compare), prepared for the page: the tokens of each pair of
// sequences beside each other, rows of figures, lines over steps. Pure.

import { differenceAt, labelOf, labelsOf } from "../../runs/tokens.js";

/**
 * @typedef {import("../../core/wire.js").Answers["/api/compare"]} Answer
 * @typedef {Answer["sequences"][number]} SequencePair
 * @typedef {NonNullable<SequencePair["a"]>} SequenceFigures
 * @typedef {SequenceFigures["tokens"][number]} JsonToken
 * @typedef {NonNullable<Answer["first_op"]>} OpDifference
 * @typedef {NonNullable<OpDifference["a"]>} Op
 * @typedef {Answer["a"]["series"][number]} SeriesPoint
 * @typedef {"a" | "b"} Side
 * @typedef {import("../../runs/tokens.js").Token} Token
 * @typedef {Pick<SequencePair, "request_id" | "number" | "member" | "a" | "b" | "same_prompt" | "equal_tokens">
 *   & import("../../runs/tokens.js").Aligned} Pair
 */

/** @type {Side[]} */
export const SIDES = ["a", "b"];

/** @typedef {Pick<Answer["runs"][number], "status">} Live */

/** Whether a run is on its way to where the one is that it was forked from. @param {Live} run */
const comes = ({ status }) => Boolean(status.fork?.active);

/** Whether a run takes steps by itself. @param {Live} run */
export const grows = (run) => comes(run) || (run.status.mode === "running" && run.status.unfinished > 0);

/** @param {Live} run */
const waits = ({ status }) => status.mode === "paused" && status.unfinished > 0;

/** Whether one of these can be stepped, now or soon. @param {Live[]} runs */
export const canGoOn = (runs) => runs.some((run) => waits(run) || comes(run));

/**
 * Those that can be stepped now: none while one is on its way, which would be left behind.
 * @template {Live} Run
 * @param {Run[]} runs
 */
export const thatGoOn = (runs) => (runs.some(comes) ? [] : runs.filter(waits));

/**
 * Bytes from the hexadecimal text that JSON has for them.
 * @param {string} hex
 */
export const bytesOf = (hex) => Uint8Array.from(hex.match(/../g) ?? [], (pair) => parseInt(pair, 16));

/**
 * @param {JsonToken} token
 * @returns {Token}
 */
const tokenOf = (token) => ({ ...token, token_bytes: bytesOf(token.token_bytes) });

/**
 * What to call a token that was chosen, by itself.
 * @param {JsonToken} token
 */
export const wordOf = (token) => labelOf(bytesOf(token.token_bytes));

/**
 * A pair's tokens as lanes. After other prompts nothing is the same.
 * @param {SequencePair} pair
 * @returns {Pair}
 */
export function alignedPair(pair) {
  const lanes = SIDES.map((side) => (pair[side]?.tokens ?? []).map(tokenOf));
  const same = pair.same_prompt ? pair.equal_tokens : 0;
  return { ...pair, lanes, same, difference: pair.difference && differenceAt(lanes, same) };
}

const FEW = 4; // sequences whose lanes are all looked at
const MAX = 8; // lanes in sight of those that are not the same

/**
 * Of more than a few sequences, those that chose the same in both runs to their ends are folded, and of the others
 * those after the first ones.
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
 * The token that an operation of one of the runs chose, if it is one that does: its label, or null.
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
 * Whether a run's log does not say a figure of the whole run: it has a value there because it must.
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
 * Operations that the runs did not do equally often.
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
 * Two series of `of(point)` over steps as lines in a box of 1 by 1: each a list of [x, y], y from the bottom; a step
 * holds its value until the next. `steps`: of the longer run; `most`: the largest value.
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
