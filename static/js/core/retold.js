// A learner's way through a recorded lesson whose transcript the page has: how far it leads, and what is told there.
// app/lessons/retold.py does the same where a server has it. Pure.

/**
 * @typedef {import("./wire.js").ToldText} ToldText
 * @typedef {import("./wire.js").ToldShow} ToldShow
 * @typedef {import("./wire.js").ToldDo} ToldDo
 * @typedef {import("./wire.js").ToldAsk} ToldAsk
 * @typedef {import("./wire.js").ToldSandbox} ToldSandbox
 * @typedef {ToldText | ToldShow | ToldDo | ToldAsk | ToldSandbox} Item
 * @typedef {Record<string, (number | null)[]>} Answers by item, as they were given; null: not sure
 * @typedef {{right: number, evidence: import("./wire.js").Evidence, whys: (string | null)[]}} Key
 * @typedef {{
 *   lesson: string, kind: import("./wire.js").Card["kind"], language: string, title: string, minutes: number,
 *   num_sections: number, tries: number, words: Record<string, string>, items: Item[], keys: Record<string, Key>,
 *   num_runs: number,
 * }} Transcript what a learner is told from beginning to end; `keys` by item of the questions
 * @typedef {{
 *   at: number, items: Item[], progress: import("./wire.js").Progress, moment: import("./wire.js").Moment,
 * }} Way the item at which one is, and how far the run is shown
 */

/**
 * Go on to item `at`, or to the first question on the way whose answers are not all in.
 * @param {Transcript} transcript @param {number} at @param {Answers} answers @returns {Way}
 */
export function wayOf(transcript, at, answers) {
  const { items, keys, num_sections } = transcript;
  const stops = items.filter(({ kind }) => kind === "do" || kind === "ask" || kind === "sandbox");
  const isOver = (/** @type {number} */ index) => !(index in keys) || given(transcript, index, answers).over;
  const here = stops.find(({ index }) => index >= at || !isOver(index))?.index ?? items.length;
  const told = items.slice(0, here + 1).map((item) => toldAt(transcript, item, here, answers));
  const done = told.flatMap((item) => (item.kind === "do" && item.moment ? [item.moment] : []));
  return {
    at: here,
    items: told,
    progress: { at: here, num_items: items.length, num_sections, over: here >= items.length },
    moment: done.at(-1) ?? { run: 0, records: 0 },
  };
}

/**
 * The answers that a question takes of those given, and whether these are all.
 * @param {Transcript} transcript @param {number} index @param {Answers} answers
 */
function given({ keys, tries }, index, answers) {
  const { right, whys } = keys[index];
  /** @type {(number | null)[]} */
  const taken = [];
  for (const one of answers[index] ?? []) {
    if (one !== null && !(one in whys)) continue; // to an earlier text of the lesson
    taken.push(one);
    if (one === null || one === right || taken.length >= tries) return { taken, over: true };
  }
  return { taken, over: false };
}

/**
 * @param {Transcript} transcript @param {Item} item @param {number} here @param {Answers} answers @returns {Item}
 */
function toldAt(transcript, item, here, answers) {
  if (item.kind === "do") return item.index < here ? item : { ...item, moment: null };
  if (item.kind !== "ask") return item;
  const { right, evidence, whys } = transcript.keys[item.index];
  const { taken, over } = given(transcript, item.index, answers);
  const told = { ...item, given: taken, whys: taken.map((one) => (one === null ? null : whys[one])), over };
  return over ? { ...told, right, evidence } : told;
}
