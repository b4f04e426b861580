// Moves of the parts of prompts, and what a session would compute again, as app/lessons/mending.py has them. Pure.

/**
 * @typedef {import("./wire.js").Move} Move
 * @typedef {Record<string, number[]>} LineTokens token ids of a line, without its end
 */

const LINE_END = -1; // stands for the token between two lines
export const MAX_MOVES = 64;

/** The name of a part. @param {string} line */
export const nameOf = (line) => line.split(/[:：]/, 1)[0];

/**
 * Whether moves can be carried out: parts that may be moved, each before another part or to the end.
 *
 * @param {string[][]} prompts @param {string[]} movable @param {Move[]} moves
 */
export function canMove(prompts, movable, moves) {
  const names = new Set(prompts.flat().map(nameOf));
  return (
    moves.length > 0 &&
    moves.every(({ part, before }, i) => {
      const isTwice = i > 0 && moves[i - 1].part === part && moves[i - 1].before === before;
      return movable.includes(part) && (before === null || (names.has(before) && before !== part)) && !isTwice;
    })
  );
}

/**
 * Moves, those that the next move of the same part undoes left out.
 * @param {Move[]} moves
 */
export const inEffect = (moves) => moves.filter(({ part }, i) => moves[i + 1]?.part !== part);

/**
 * Prompts, each as its lines, after moves: a part goes before another, or to the end, in every prompt that has it. One
 * without the other has it before the first part that follows the other in the first prompt with both, or at the end.
 *
 * @param {string[][]} prompts @param {Move[]} moves @returns {string[][]}
 */
export const moved = (prompts, moves) =>
  moves.reduce((now, { part, before }) => {
    const after = following(now, part, before);
    return after ? now.map((lines) => placed(lines, part, after)) : now;
  }, prompts);

/**
 * The names from `before` on, in the first prompt with both parts; null: there is none.
 * @param {string[][]} prompts @param {string} part @param {string | null} before
 */
function following(prompts, part, before) {
  if (before === null) return [];
  const named = prompts.map((lines) => lines.map(nameOf));
  const names = named.find((one) => part !== before && one.includes(part) && one.includes(before));
  return names?.slice(names.indexOf(before)).filter((name) => name !== part) ?? null;
}

/** @param {string[]} lines @param {string} part @param {string[]} after */
function placed(lines, part, after) {
  const from = lines.findIndex((line) => nameOf(line) === part);
  if (from < 0) return lines;
  const rest = lines.toSpliced(from, 1);
  const names = rest.map(nameOf);
  const before = after.find((name) => names.includes(name));
  return rest.toSpliced(before === undefined ? rest.length : names.indexOf(before), 0, lines[from]);
}

/**
 * Whether no whole block of prompts, each as its lines, would be computed again.
 * @param {string[][]} prompts @param {LineTokens} tokens @param {number} blockSize
 */
export function wouldBeRight(prompts, tokens, blockSize) {
  const earlier = /** @type {number[][]} */ ([]);
  const seen = new Set();
  return prompts.every((lines) => {
    const ids = lines.flatMap((line, i) => (i ? [LINE_END, ...tokens[line]] : tokens[line]));
    const shared = Math.max(0, ...earlier.map((other) => numCommon(ids, other)));
    const usable = Math.min(shared, ids.length - 1);
    let [start, isShared, behind] = [0, true, 0];
    for (const line of lines) {
      isShared &&= start + tokens[line].length <= shared;
      const end = Math.min(start + tokens[line].length + 1, ids.length);
      if (!isShared && seen.has(line)) behind += end - Math.max(start, shared);
      start = end;
    }
    earlier.push(ids);
    for (const line of lines) seen.add(line);
    return Math.min(shared + behind, ids.length - 1) - (usable - (usable % blockSize)) < blockSize;
  });
}

/** @param {number[]} one @param {number[]} other */
function numCommon(one, other) {
  const at = one.findIndex((id, i) => id !== other[i]);
  return at < 0 ? one.length : at;
}
