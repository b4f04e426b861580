// A comparison of two runs, as the server made it, prepared for the page: bytes again, lanes of tokens, rows of figures. Pure.

import { labelText, tokenLabels } from "../core/labels.js";

/** Bytes from the hexadecimal text that JSON has for them. */
export const bytesOf = (hex) => Uint8Array.from(hex.match(/../g) ?? [], (pair) => parseInt(pair, 16));

/** Labels of a list of tokens; a fragment of a character is told as one. */
export const labelsOf = (tokens) => tokenLabels(tokens.map(({ token_bytes: hex }) => bytesOf(hex))).map(labelText);

const FEW = 4; // sequences whose lanes are all looked at
const MOST = 8; // lanes in sight of those that are not the same

/**
 * Of more than a few sequences, those that chose the same in both runs to their ends are folded, and of the others those after
 * the first ones: {shown, apart, same}.
 */
export function foldedPairs({ sequences }) {
  if (sequences.length <= FEW) return { shown: sequences, apart: [], same: [] };
  const equal = ({ a, b, same_prompt: same, equal_tokens: n }) =>
    Boolean(a && b) && same && n === a.tokens.length && n === b.tokens.length;
  const apart = sequences.filter((pair) => !equal(pair));
  return { shown: apart.slice(0, MOST), apart: apart.slice(MOST), same: sequences.filter(equal) };
}

/**
 * A pair's tokens as two lanes: `same`, the labels of what both chose, and for each run its tokens from `from` on, each
 * `{...token, label, place}`, `place` counted from the first chosen token. `differs`: whether the first of them is the first difference.
 */
export function lanesOf(pair) {
  const side = (figures) => {
    if (!figures) return [];
    const labels = labelsOf(figures.tokens);
    return figures.tokens.map((token, place) => ({ ...token, label: labels[place], place }));
  };
  const [a, b] = [side(pair.a), side(pair.b)];
  const from = pair.same_prompt ? pair.equal_tokens : 0;
  return { same: a.slice(0, from), from, a: a.slice(from), b: b.slice(from), differs: pair.difference !== null };
}

/** The token that an operation of one of the runs chose, if it is a `sample`: its label, or null. */
export function tokenOf(comparison, side, op, record) {
  if (op?.type === "choose") return labelText(tokenLabels([bytesOf(op.token_bytes)])[0]);
  if (op?.type !== "sample") return null;
  const figures = comparison.sequences.map((pair) => pair[side]).find((each) => each?.seq_id === op.seq_id);
  const place = figures?.tokens.findIndex((token) => token.record === record) ?? -1;
  return place < 0 ? null : labelsOf(figures.tokens)[place];
}

/** Figures of a whole run, in groups: [group, [[name, kind of value], …]]. */
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

/** Operations that the runs did not do equally often: [[type, times in a, times in b], …]. */
export function operationsThatDiffer({ a, b }) {
  const [mine, theirs] = [a.totals.operations, b.totals.operations];
  const types = [...new Set([...Object.keys(mine), ...Object.keys(theirs)])].sort();
  return types.map((type) => [type, mine[type] ?? 0, theirs[type] ?? 0]).filter(([, x, y]) => x !== y);
}

/**
 * Two series of `of(point)` over steps as lines in a box of 1 by 1: `{a, b, steps, most}`, each a list of [x, y], y from the
 * bottom; a step holds its value until the next.
 */
export function linesOf(comparison, of) {
  const series = [comparison.a.series, comparison.b.series];
  const steps = Math.max(1, ...series.map((points) => points.at(-1)?.step ?? 0));
  const most = Math.max(0, ...series.flatMap((points) => points.map(of)));
  const line = (points) =>
    points.flatMap((point) => [
      [(point.step - 1) / steps, most ? of(point) / most : 0],
      [point.step / steps, most ? of(point) / most : 0],
    ]);
  return { a: line(series[0]), b: line(series[1]), steps, most };
}
