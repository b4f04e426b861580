// Progress in a recorded lesson, from the transcript that the page has loaded: the reachable item and its content.
// app/lessons/lesson_replay.py is the server's counterpart. Pure.

import { canMove, moved, wouldBeRight } from "./prompt_order.js";

/** @import {BlockMove, Done, Mended, Mending, AskItem, DoItem, MendItem, SandboxItem, ShowItem} from "./wire.js" */
/** @import {TextItem, WorkItem} from "./wire.js" */

/**
 * @typedef {TextItem | ShowItem | DoItem | AskItem | WorkItem | MendItem | SandboxItem} Item
 * @typedef {Record<string, (number | BlockMove[] | Mending | null)[]>} Answers by item, in the order given; null: not
 * sure
 * @typedef {{right: number, evidence: import("./wire.js").Evidence, whys: (string | null)[]}} Key
 * @typedef {{
 *   lesson: string, kind: import("./wire.js").Card["kind"], language: string, title: string, minutes: number,
 *   num_sections: number, tries: number, words: Record<string, string>, items: Item[], keys: Record<string, Key>,
 *   works: Record<string, Done[]>, num_runs: number, num_optional: number,
 *   mended: Record<string, {run: Mended, tokens: import("./prompt_order.js").LineTokens}>,
 * }} Transcript complete content of a lesson; `keys` by question item, `works` the engine's operations by work item,
 * `mended` a correct run by mending item
 * @typedef {{
 *   at: number, items: Item[], progress: import("./wire.js").Progress, moment: import("./wire.js").Moment,
 * }} Position current item, and how far the run is shown
 */

/**
 * Advance to item `at`, or to the first question before it whose answers are incomplete.
 * @param {Transcript} transcript
 * @param {number} at
 * @param {Answers} answers
 * @returns {Position}
 */
export function progressOf(transcript, at, answers) {
  const { items, keys, works, mended = {}, num_sections, num_optional } = transcript;
  const stops = items.filter(({ kind }) => kind !== "text" && kind !== "show");
  const isOver = (/** @type {number} */ index) => {
    if (index in works) return listsOf(index, answers).length > 0;
    if (index in mended) return mendingsOf(transcript, index, answers).over;
    return !(index in keys) || countedAnswers(transcript, index, answers).over;
  };
  const current = stops.find(({ index }) => index >= at || !isOver(index))?.index ?? items.length;
  const shown = items.slice(0, current + 1).map((item) => itemAt(transcript, item, current, answers));
  const asks = items
    .slice(isOver(current) ? current + 1 : current)
    .flatMap((item) => (item.kind === "ask" ? [item.rule] : []));
  const done = shown.flatMap((item) =>
    (item.kind === "do" || item.kind === "mend") && item.moment ? [item.moment] : [],
  );
  return {
    at: current,
    items: shown,
    progress: {
      ...{ at: current, num_items: items.length, num_sections, over: current >= items.length, num_optional },
      asks: [...new Set(asks)].sort(),
    },
    moment: done.at(-1) ?? { run: 0, records: 0 },
  };
}

/**
 * Return the answers to a question that count, and whether they complete it.
 * @param {Transcript} transcript
 * @param {number} index
 * @param {Answers} answers
 */
function countedAnswers({ keys, tries }, index, answers) {
  const { right, whys } = keys[index];
  /** @type {(number | null)[]} */
  const counted = [];
  for (const one of answers[index] ?? []) {
    // answer to an earlier version of the lesson
    if (one !== null && (typeof one !== "number" || !(one in whys))) continue;
    counted.push(one);
    if (one === null || one === right || counted.length >= tries) return { counted, over: true };
  }
  return { counted, over: false };
}

/**
 * Return the first list that a learner gave, or null in it if the learner asked for the solution. The page has no rules
 * to grade further tries.
 * @param {number} index
 * @param {Answers} answers
 * @returns {(BlockMove[] | null)[]}
 */
const listsOf = (index, answers) =>
  (answers[index] ?? []).filter((one) => one === null || Array.isArray(one)).slice(0, 1);

/**
 * Grade the mendings of an item that count, and return them and whether they complete it. A mending whose prompts equal
 * the recorded ones gets the recorded run; the page has no engine to run others.
 * @param {Transcript} transcript
 * @param {number} index
 * @param {Answers} answers
 */
function mendingsOf({ items, mended, tries }, index, answers) {
  const { before, movable, block_size } = /** @type {MendItem} */ (items[index]);
  const { run, tokens } = mended[index];
  const originals = before.map(({ lines }) => lines);
  const recorded = JSON.stringify(run.turns.map(({ lines }) => lines));
  const counted = /** @type {(Mended | null)[]} */ ([]);
  for (const one of answers[index] ?? []) {
    if (typeof one === "number" || Array.isArray(one)) continue; // answer to an earlier version of the lesson
    if (one && !canMove(originals, movable, one.moves)) continue;
    if (one === null) counted.push(null);
    else {
      const prompts = moved(originals, one.moves);
      const isRecorded = JSON.stringify(prompts) === recorded;
      const right = isRecorded || wouldBeRight(prompts, tokens, block_size);
      counted.push({ moves: one.moves, turns: isRecorded ? run.turns : [], right });
    }
    if (counted.at(-1)?.right !== false || counted.length >= tries) return { counted, over: true };
  }
  return { counted, over: false };
}

/**
 * Compare a list with the engine's operations, position by position.
 * @param {Done[]} engine
 * @param {BlockMove[]} moves
 * @returns {import("./wire.js").GradedList}
 */
function compared(engine, moves) {
  const verdicts = moves.map((move, i) => {
    const done = engine[i]?.deed;
    const isSame = done && FIELDS.every((name) => (done[name] ?? null) === (move[name] ?? null));
    return { grade: isSame ? /** @type {const} */ ("right") : /** @type {const} */ ("differs"), why: null, refs: 0 };
  });
  const missing = Math.max(0, engine.length - moves.length);
  return { moves, verdicts, missing, right: !missing && verdicts.every(({ grade }) => grade === "right") };
}
const FIELDS = /** @type {const} */ (["kind", "block", "seq", "source"]);

/**
 * @param {Transcript} transcript
 * @param {Item} item
 * @param {number} current
 * @param {Answers} answers
 * @returns {Item}
 */
function itemAt(transcript, item, current, answers) {
  if (item.kind === "do") return item.index < current ? item : { ...item, moment: null };
  if (item.kind === "work") {
    const [engine, lists] = [transcript.works[item.index], listsOf(item.index, answers)];
    const graded = lists.map((moves) => moves && compared(engine, moves));
    return { ...item, given: graded, over: lists.length > 0, engine: lists.length ? engine : null };
  }
  if (item.kind === "mend") {
    const { counted, over } = mendingsOf(transcript, item.index, answers);
    const { run } = transcript.mended[item.index];
    return { ...item, given: counted, over, right: over ? run : null, moment: over ? item.moment : null };
  }
  if (item.kind !== "ask") return item;
  const { right, evidence, whys } = transcript.keys[item.index];
  const { counted, over } = countedAnswers(transcript, item.index, answers);
  const answered = { ...item, given: counted, whys: counted.map((one) => (one === null ? null : whys[one])), over };
  return over ? { ...answered, right, evidence } : answered;
}
