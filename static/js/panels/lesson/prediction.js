// What the learner predicts: the answer that is being chosen, and which answers stand in the picture.

import { computed, signal } from "../../../vendor/signals/signals.js";
import { answerToClass } from "../../control/class_lesson.js";
import { told } from "../../state/classroom.js";
import { barrier, opened } from "../../state/lessons.js";
import { settings } from "../../state/settings.js";
import { shownSeq } from "../../state/store.js";

/**
 * @typedef {import("../../state/lessons.js").Item} Item
 * @typedef {import("../../state/lessons.js").ToldAsk} ToldAsk
 * @typedef {NonNullable<import("../../core/wire.js").ToldOption["place"]>} Place
 * @typedef {"offered" | "chosen" | "mine" | "outcome" | "both"} Role an answer that can be chosen, is chosen; the
 *   learner's; what the log has; both of these
 * @typedef {{item: ToldAsk, option: number, place: Place, role: Role}} Mark
 */

/** The answer that is chosen and not given yet; -1: not sure; null: none. */
export const chosen = signal(/** @type {{item: number, option: number} | null} */ (null));

/** The question that somebody looks back at, until the lesson goes on. */
const recalled = signal(/** @type {{item: number, at: number} | null} */ (null));

/** Have the answers to an earlier question in the picture. @param {ToldAsk} item */
export function lookBackAt(item) {
  recalled.value = { item: item.index, at: opened.value?.progress.at ?? -1 };
}

/** Whether what was right may be said: where learning is measured only at the end. */
export const isTold = () => opened.value?.kind === "lesson" || opened.value?.progress.over === true;

/**
 * Whether a question can be answered now.
 *
 * @param {ToldAsk} item
 */
export const isOpen = (item) => !item.over && barrier.value?.index === item.index && isAskedHere(item);

/** Whether this page is asked: a class is when its presenter puts the question to it. @param {ToldAsk} item */
const isAskedHere = ({ index }) => {
  if (opened.value?.source !== "class") return true;
  const poll = told.value?.poll;
  return poll?.item === index && (poll.phase === "open" || poll.phase === "again");
};

/** The question that the learner has turned to, by its index: before that the picture has what came of the last one. */
const turned = signal(-1);

/** Have a question's places in the picture, of the sequence that it is about. @param {ToldAsk} item */
export function turnTo(item) {
  if (!isOpen(item) || turned.peek() === item.index) return;
  turned.value = item.index;
  const of = item.options.find(({ place }) => place?.kind === "tokens")?.place;
  if (of?.kind === "tokens" && of.seq !== shownSeq.peek()) settings.seq.value = of.seq;
}

/**
 * The questions that one action decides, newest action first: those between it and the action before.
 *
 * @param {Item[]} items
 * @returns {ToldAsk[][]}
 */
export function questionsByAction(items) {
  /** @type {ToldAsk[][]} */
  const found = [[]];
  for (const item of items.toReversed()) {
    if (item.kind === "ask") found[0].unshift(item);
    if (item.kind !== "do" || !item.moment) continue;
    if (isAnew(item)) break;
    if (found[0].length) found.unshift([]);
  }
  return found.reverse().filter((group) => group.length);
}

/** Whether the pictures are of another run after it. @param {import("../../state/lessons.js").ToldDo} item */
const isAnew = ({ action }) => action.verb === "restart" || action.verb === "fork";

/** What stands in the picture. @type {import("../../../vendor/signals/signals.js").ReadonlySignal<Mark[]>} */
export const marks = computed(() => {
  const items = opened.value?.items ?? [];
  const isBack = recalled.value?.at === opened.value?.progress.at;
  const back = isBack ? items.find((item) => item.index === recalled.value?.item) : null;
  const groups = questionsByAction(items);
  const open = groups[0]?.filter(isOpen) ?? [];
  const [newest, before] = open.length
    ? [open, [...groups[0].filter((item) => item.over), ...(groups[1] ?? [])]]
    : [groups[0] ?? [], []];
  const [next, last] = [newest.flatMap(marksOf), before.flatMap(marksOf)];
  if (back?.kind === "ask") return marksOf(back);
  return open.length && turned.value !== open[0].index && last.length ? last : next;
});

/** Whether what stands in the picture stands in the pool: where there is room for one part only, that is shown. */
export const isInPool = computed(
  () => marks.value.length > 0 && marks.value.every(({ place }) => place.kind === "slot" || place.kind === "block"),
);

/** What stands in the picture of a question. @param {ToldAsk} item @returns {Mark[]} */
const marksOf = (item) =>
  item.options.flatMap(({ place }, option) => {
    const role = place && roleOf(item, option);
    return role ? [{ item, option, place, role }] : [];
  });

/**
 * @param {ToldAsk} item
 * @param {number} option
 * @returns {Role | null}
 */
function roleOf(item, option) {
  const isMine = item.given.includes(option);
  if (isOpen(item)) {
    if (isMine) return "mine";
    return chosen.value?.item === item.index && chosen.value.option === option ? "chosen" : "offered";
  }
  const isRight = item.over && isTold() && item.right === option;
  return isRight && item.given[0] === option ? "both" : isRight ? "outcome" : isMine ? "mine" : null;
}

/**
 * Choose an answer, to give it later; a class is answered at once.
 *
 * @param {ToldAsk} item
 * @param {number} option -1: not sure
 */
export function choose(item, option) {
  turnTo(item);
  if (opened.value?.source === "class") answerToClass(option < 0 ? null : option);
  else chosen.value = { item: item.index, option };
}
