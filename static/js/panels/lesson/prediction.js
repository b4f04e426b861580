// Predictions of the learner: the selected answer, and the answers marked in the picture.

import { computed, signal } from "../../../vendor/signals/signals.js";
import { answerToClass } from "../../control/class_lesson.js";
import { classState } from "../../state/classroom.js";
import { checkpoint, currentLesson } from "../../state/lessons.js";
import { settings } from "../../state/settings.js";
import { shownSeq } from "../../state/store.js";

/** @import {AskItem} from "../../core/wire.js" */
/** @import {Item} from "../../state/lessons.js" */

/**
 * @typedef {NonNullable<import("../../core/wire.js").AskOption["place"]>} Place
 * @typedef {"offered" | "chosen" | "mine" | "outcome" | "both"} Role selectable, selected, the learner's answer, the
 *   outcome in the log, or the learner's answer and the outcome
 * @typedef {{item: AskItem, option: number, place: Place, role: Role}} Mark
 */

/** The selected but not yet submitted answer (option -1: not sure), or null. */
export const chosen = signal(/** @type {{item: number, option: number} | null} */ (null));

/** The earlier question that is being revisited, until the lesson continues. */
const revisited = signal(/** @type {{item: number, at: number} | null} */ (null));

/** Mark the answers to an earlier question in the picture. @param {AskItem} item */
export function revisitQuestion(item) {
  revisited.value = { item: item.index, at: currentLesson.value?.progress.at ?? -1 };
}

/** Whether correct answers may be revealed. Tests reveal them only at the end. */
export const showsVerdict = () => currentLesson.value?.kind === "lesson" || currentLesson.value?.progress.over === true;

/** Return whether a question can be answered now. @param {AskItem} item */
export const isOpen = (item) => !item.over && checkpoint.value?.index === item.index && isAnsweredHere(item);

/** Whether this page accepts answers. In a class, the presenter opens the question. @param {AskItem} item */
const isAnsweredHere = ({ index }) => {
  if (currentLesson.value?.source !== "class") return true;
  const poll = classState.value?.poll;
  return poll?.item === index && (poll.phase === "open" || poll.phase === "again");
};

/** Index of the question whose places are marked. Until it is set, the outcome of the previous question is marked. */
const pictured = signal(-1);

/** Mark a question's places in the picture and show the question's sequence. @param {AskItem} item */
export function turnTo(item) {
  if (!isOpen(item) || pictured.peek() === item.index) return;
  pictured.value = item.index;
  const tokens = item.options.find(({ place }) => place?.kind === "tokens")?.place;
  if (tokens?.kind === "tokens" && tokens.seq !== shownSeq.peek()) settings.seq.value = tokens.seq;
}

/**
 * Group the questions by the action that decides them, newest action first.
 * @param {Item[]} items
 * @returns {AskItem[][]}
 */
export function questionsByAction(items) {
  /** @type {AskItem[][]} */
  const found = [[]];
  for (const item of items.toReversed()) {
    if (item.kind === "ask") found[0].unshift(item);
    if (item.kind !== "do" || !item.moment) continue;
    if (beginsRun(item)) break;
    if (found[0].length) found.unshift([]);
  }
  return found.reverse().filter((group) => group.length);
}

/** Whether the action starts another run. @param {import("../../core/wire.js").DoItem} item */
const beginsRun = ({ action }) => action.verb === "restart" || action.verb === "fork";

/** Answers marked in the picture. @type {import("../../../vendor/signals/signals.js").ReadonlySignal<Mark[]>} */
export const marks = computed(() => {
  const items = currentLesson.value?.items ?? [];
  const isRevisiting = revisited.value?.at === currentLesson.value?.progress.at;
  const revisitedItem = isRevisiting ? items.find((item) => item.index === revisited.value?.item) : null;
  const groups = questionsByAction(items);
  const open = groups[0]?.filter(isOpen) ?? [];
  const [newest, previous] = open.length
    ? [open, [...groups[0].filter((item) => item.over), ...(groups[1] ?? [])]]
    : [groups[0] ?? [], []];
  const [next, last] = [newest.flatMap(marksOf), previous.flatMap(marksOf)];
  if (revisitedItem?.kind === "ask") return marksOf(revisitedItem);
  return open.length && pictured.value !== open[0].index && last.length ? last : next;
});

/** Whether all marks are in the pool. A layout with space for one part then shows the pool. */
export const isInPool = computed(
  () => marks.value.length > 0 && marks.value.every(({ place }) => place.kind === "slot" || place.kind === "block"),
);

/** Return the marks of a question. @param {AskItem} item @returns {Mark[]} */
const marksOf = (item) =>
  item.options.flatMap(({ place }, option) => {
    const role = place && roleOf(item, option);
    return role ? [{ item, option, place, role }] : [];
  });

/** @param {AskItem} item @param {number} option @returns {Role | null} */
function roleOf(item, option) {
  const isOwn = item.given.includes(option);
  if (isOpen(item)) {
    if (isOwn) return "mine";
    return chosen.value?.item === item.index && chosen.value.option === option ? "chosen" : "offered";
  }
  const isRight = item.over && showsVerdict() && item.right === option;
  return isRight && item.given[0] === option ? "both" : isRight ? "outcome" : isOwn ? "mine" : null;
}

/**
 * Select an answer. It is submitted later, or immediately in a class.
 * @param {AskItem} item
 * @param {number} option -1: not sure
 */
export function choose(item, option) {
  turnTo(item);
  if (currentLesson.value?.source === "class") answerToClass(option < 0 ? null : option);
  else chosen.value = { item: item.index, option };
}
