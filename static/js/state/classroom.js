// State of the class that this page belongs to: the shared part, this seat's own part and the presenter's part.

import { computed, signal } from "../../vendor/signals/signals.js";
import { settings } from "./settings.js";

/**
 * @template T
 * @typedef {import("../../vendor/signals/signals.js").Signal<T>} Signal
 */
/**
 * @typedef {import("../core/wire.js").ClassTold} ClassTold
 * @typedef {import("../core/wire.js").Mine} Mine
 * @typedef {import("../core/wire.js").ClassDesk} ClassDesk
 * @typedef {import("../core/wire.js").Presenting} Presenting
 * @typedef {import("../core/wire.js").ClassPressed} Pressed
 */

/** State shared by every member; null while the page is in no class. @type {Signal<ClassTold | null>} */
export const told = signal(null);
let toldAt = 0; // ms of this page's clock at which `told` arrived
told.subscribe(() => (toldAt = performance.now()));

/** Return the seconds left for the current question; null without a time limit. */
export function secondsLeft() {
  const left = told.peek()?.poll?.left ?? null;
  return left === null ? null : Math.max(0, left - (performance.now() - toldAt) / 1000);
}

/** State of this follower's seat. @type {Signal<Mine | null>} */
export const mine = signal(null);
/** Initial state that the presenter's browser receives on entering. @type {Signal<Presenting | null>} */
export const presenting = signal(null);
/** Attendance list, for the presenter. @type {Signal<ClassDesk | null>} */
export const desk = signal(null);
/** Last key press of a remote control; a new object for each press. @type {Signal<Pressed | null>} */
export const pressed = signal(null);
/**
 * Lesson question put to the class, for pages that do not have that lesson open.
 *
 * @type {Signal<{theater: string, language: string, item: import("../core/wire.js").ToldAsk} | null>}
 */
export const lessonAsks = signal(null);
/** Whether the presenter has removed this seat. */
export const sentAway = signal(false);
/** Whether the server no longer knows this page's class, because it was restarted. */
export const forgotten = signal(false);
/** Whether the follower has left the presenter's view to explore. */
export const roaming = signal(false);

/** Whether the dialog that opens a class is shown. */
export const startOpen = signal(false);
/** Whether the join code is enlarged on the projector; `chosenDoor` indexes the address it shows. */
export const doorOpen = signal(false);
/** Whether the presenter writes a question on the projector page itself. */
export const askOpen = signal(false);
export const chosenDoor = signal(0);

export const presents = computed(() => presenting.value !== null);
export const attends = computed(() => told.value !== null && !presents.value);

/** Whether the class sees what this page does. A teacher view runs beside the page that drives. */
export const drives = computed(() => {
  const now = told.value;
  if (!now || now.over || settings.distance.value === "desk") return false;
  return presents.value ? now.driver === null : now.driver !== null && now.driver === mine.value?.seat;
});

/** Whether this page follows another page's view. */
export const isLed = computed(() => told.value !== null && !told.value.over && !drives.value);

/**
 * Apply an update of the class unless a newer one arrived first: a reply and a message may overtake each other.
 *
 * @param {ClassTold} message
 */
export function hear(message) {
  const now = told.peek();
  if (message.id !== settings.class.peek() || (now?.id === message.id && now.version > message.version)) return;
  told.value = message;
}

/**
 * Return this seat's answer to a question in a round (null: not sure), or undefined.
 *
 * @param {number} poll
 * @param {number} round
 */
export function answerTo(poll, round) {
  const found = mine.value?.answers.find((one) => one.poll === poll);
  return found?.has[round] ? found.given[round] : undefined;
}

/**
 * Return this seat's answer in the question's current or last round as a list of one, or an empty list. A second vote
 * starts without the answers of the first.
 *
 * @param {{id: number, round: number}} poll
 */
export function answersTo(poll) {
  const given = answerTo(poll.id, poll.round);
  return given === undefined ? [] : [given];
}

/**
 * Handlers of the server's class messages, by event.
 *
 * @typedef {"class" | "class_desk" | "class_mine" | "class_left" | "class_pressed"} Heard
 * @type {{[E in Heard]: (message: import("../core/wire.js").Told[E]) => void}}
 */
export const heardOfClass = {
  class: hear,
  class_desk: (message) => {
    if (told.peek()?.id === message.id) desk.value = message;
  },
  class_mine: (message) => {
    mine.value = message;
  },
  class_left: ({ id }) => {
    if (told.peek()?.id === id) sentAway.value = true;
  },
  class_pressed: (message) => {
    pressed.value = message;
  },
};
