// State of this page's class: the shared part, this seat's part and the presenter's part.

import { computed, signal } from "../../vendor/signals/signals.js";
import { settings } from "./settings.js";

/** @import {Signal} from "../../vendor/signals/signals.js" */
/** @import {ClassDesk, ClassState, Mine, Presenting} from "../core/wire.js" */

/** @typedef {import("../core/wire.js").ClassPressed} Pressed */

/** State shared by all members; null while the page is in no class. @type {Signal<ClassState | null>} */
export const classState = signal(null);
let receivedAt = 0; // ms of this page's clock at which `classState` arrived
classState.subscribe(() => (receivedAt = performance.now()));

/** Return the seconds left for the current question; null without a time limit. */
export function secondsLeft() {
  const left = classState.peek()?.poll?.left ?? null;
  return left === null ? null : Math.max(0, left - (performance.now() - receivedAt) / 1000);
}

/** State of this follower's seat. @type {Signal<Mine | null>} */
export const ownSeat = signal(null);
/** Initial state that the presenter's browser receives on entering. @type {Signal<Presenting | null>} */
export const presenting = signal(null);
/** Attendance list, for the presenter. @type {Signal<ClassDesk | null>} */
export const attendance = signal(null);
/** Last key press of a remote control; a new object for each press. @type {Signal<Pressed | null>} */
export const pressed = signal(null);
/** Id of the question whose answers were removed from the projected view. */
export const dismissed = signal(-1);
/**
 * Lesson question asked to the class, for pages that do not have that lesson open.
 * @type {Signal<{theater: string, language: string, item: import("../core/wire.js").AskItem} | null>}
 */
export const lessonQuestion = signal(null);
/** Whether this page's follower may use the server only for the class. */
export const isGuest = signal(false);
/** Whether the presenter has removed this seat. */
export const removed = signal(false);
/** Whether the server lost this page's class because it was restarted. */
export const forgotten = signal(false);
/** Whether the follower has left the presenter's view to explore. */
export const roaming = signal(false);

/** Whether the dialog that opens a class is shown. */
export const startOpen = signal(false);
/** Whether the join code is enlarged on the projector; `chosenAddress` indexes the address it shows. */
export const isJoinCodeLarge = signal(false);
/** Whether the dialog for a question is open on the projector page. */
export const askOpen = signal(false);
export const chosenAddress = signal(0);

export const presents = computed(() => presenting.value !== null);
export const attends = computed(() => classState.value !== null && !presents.value);
/** Whether the page is entering the class of its address, so that it may be a follower's. */
export const enters = computed(() => settings.class.value !== null && classState.value === null);

/** Whether the class follows this page. A teacher view is open beside the page that the class follows. */
export const drives = computed(() => {
  const now = classState.value;
  if (!now || now.over || settings.viewMode.value === "teacher") return false;
  return presents.value ? now.driver === null : now.driver !== null && now.driver === ownSeat.value?.seat;
});

/** Whether no question is open, so that one can be asked. */
export const canAsk = computed(() => {
  const poll = classState.value?.poll ?? null;
  return poll === null || poll.phase === "shown";
});

/** Whether this page follows another page's view. */
export const isLed = computed(() => classState.value !== null && !classState.value.over && !drives.value);

/**
 * Apply an update of the class unless a newer one has arrived: a response and a message may overtake each other.
 * @param {ClassState} message
 */
export function receiveState(message) {
  const now = classState.peek();
  if (message.id !== settings.class.peek() || (now?.id === message.id && now.version > message.version)) return;
  classState.value = message;
}

/**
 * Return this seat's answer to a question in a round (null: not sure), or undefined.
 * @param {number} poll
 * @param {number} round
 */
export function answerTo(poll, round) {
  const found = ownSeat.value?.answers.find((one) => one.poll === poll);
  return found?.has[round] ? found.given[round] : undefined;
}

/**
 * Return this seat's answer in the question's current or last round, as a list of at most one. A second vote
 * starts without the answers of the first.
 * @param {{id: number, round: number}} poll
 */
export function answersTo(poll) {
  const given = answerTo(poll.id, poll.round);
  return given === undefined ? [] : [given];
}

/**
 * Handlers of the server's class messages, by event.
 *
 * @typedef {"class" | "class_desk" | "class_mine" | "class_left" | "class_pressed"} ClassEvent
 * @type {{[E in ClassEvent]: (message: import("../core/wire.js").ServerEvents[E]) => void}}
 */
export const CLASS_HANDLERS = {
  class: receiveState,
  class_desk: (message) => {
    if (classState.peek()?.id === message.id) attendance.value = message;
  },
  class_mine: (message) => {
    ownSeat.value = message;
  },
  class_left: ({ id }) => {
    if (classState.peek()?.id === id) removed.value = true;
  },
  class_pressed: (message) => {
    pressed.value = message;
  },
};
