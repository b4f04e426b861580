// Reordering of prompt parts, and the blocks a session would recompute, as in app/lessons/prompt_order.py. Pure.

/** @import {Move} from "./wire.js" */

/** @typedef {Record<string, number[]>} LineTokens token ids of a line, without its line break */

const LINE_END = -1; // represents the token between two lines
export const MAX_MOVES = 64;

/** Return the name of a part. @param {string} line */
export const nameOf = (line) => line.split(/[:：]/, 1)[0];

/**
 * Return whether moves are valid: movable parts, each moved before another part or to the end.
 * @param {string[][]} prompts
 * @param {string[]} movable
 * @param {Move[]} moves
 */
export function canMove(prompts, movable, moves) {
  const names = new Set(prompts.flat().map(nameOf));
  return (
    moves.length > 0 &&
    moves.every(({ part, before }, i) => {
      const isRepeated = i > 0 && moves[i - 1].part === part && moves[i - 1].before === before;
      return movable.includes(part) && (before === null || (names.has(before) && before !== part)) && !isRepeated;
    })
  );
}

/** Return the moves without those that the next move of the same part overrides. @param {Move[]} moves */
export const inEffect = (moves) => moves.filter(({ part }, i) => moves[i + 1]?.part !== part);

/**
 * Apply moves to prompts, each a list of lines: a part moves before the part `before`, or to the end, in every prompt
 * that has it. In a prompt without `before`, it moves before the first part that follows `before` in the first prompt
 * with both, or at the end.
 * @param {string[][]} prompts
 * @param {Move[]} moves
 * @returns {string[][]}
 */
export const moved = (prompts, moves) =>
  moves.reduce((now, { part, before }) => {
    const after = following(now, part, before);
    return after ? now.map((lines) => placed(lines, part, after)) : now;
  }, prompts);

/**
 * Return the names from `before` on, in the first prompt with both parts; null: there is none.
 * @param {string[][]} prompts
 * @param {string} part
 * @param {string | null} before
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
 * Return whether no complete block of the prompts, each a list of lines, would be recomputed.
 * @param {string[][]} prompts
 * @param {LineTokens} tokens
 * @param {number} blockSize
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
