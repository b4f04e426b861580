// Moves of the parts of prompts, as app/lessons/mending.py has them. Pure.

/**
 * @typedef {import("./wire.js").Move} Move
 */

/** The name of a part. @param {string} line */
export const nameOf = (line) => line.split(/[:：]/, 1)[0];

/**
 * Prompts, each as its lines, after moves: a part goes before another, or to the end, in every prompt that has both.
 *
 * @param {string[][]} prompts @param {Move[]} moves @returns {string[][]}
 */
export const moved = (prompts, moves) =>
  prompts.map((lines) => moves.reduce((now, { part, before }) => placed(now, part, before), lines));

/** @param {string[]} lines @param {string} part @param {string | null} before */
function placed(lines, part, before) {
  const names = lines.map(nameOf);
  const from = names.indexOf(part);
  if (from < 0 || before === part || (before !== null && !names.includes(before))) return lines;
  const rest = lines.toSpliced(from, 1);
  const at = before === null ? rest.length : rest.map(nameOf).indexOf(before);
  return rest.toSpliced(at, 0, lines[from]);
}
