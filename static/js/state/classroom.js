// The class that this page is in: what everybody knows of it, what is this seat's own, what only its presenter knows.

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

/** What everybody knows; null: the page is in no class. @type {Signal<ClassTold | null>} */
export const told = signal(null);
let toldAt = 0; // ms of this page's clock, when `told` came
told.subscribe(() => (toldAt = performance.now()));

/** Seconds that are left for the question now; null: it has no clock. */
export function secondsLeft() {
  const left = told.peek()?.poll?.left ?? null;
  return left === null ? null : Math.max(0, left - (performance.now() - toldAt) / 1000);
}

/** A follower's own. @type {Signal<Mine | null>} */
export const mine = signal(null);
/** What the presenter's browser was told when it came. @type {Signal<Presenting | null>} */
export const presenting = signal(null);
/** Who is there, for the presenter. @type {Signal<ClassDesk | null>} */
export const desk = signal(null);
/** A remote's key, another object for each press. @type {Signal<Pressed | null>} */
export const pressed = signal(null);
/**
 * The lesson's question that the class is asked, where the page has not that lesson open.
 *
 * @type {Signal<{theater: string, language: string, item: import("../core/wire.js").ToldAsk} | null>}
 */
export const lessonAsks = signal(null);
/** Whether the presenter has taken one's seat away. */
export const sentAway = signal(false);
/** Whether the server does not know this page's class any more: it was started anew. */
export const forgotten = signal(false);
/** Whether one has gone ways of one's own. */
export const roaming = signal(false);

/** Whether somebody is about to open a class. */
export const startOpen = signal(false);
/** Whether the way in is large on the wall, and which of the addresses it shows. */
export const doorOpen = signal(false);
/** Whether the presenter writes a question on the wall's own page. */
export const askOpen = signal(false);
export const chosenDoor = signal(0);

export const presents = computed(() => presenting.value !== null);
export const attends = computed(() => told.value !== null && !presents.value);

/** Whether what this page does is what the class sees. A presenter's desk is beside the page that drives. */
export const drives = computed(() => {
  const now = told.value;
  if (!now || now.over || settings.distance.value === "desk") return false;
  return presents.value ? now.driver === null : now.driver !== null && now.driver === mine.value?.seat;
});

/** Whether this page goes where another one leads. */
export const isLed = computed(() => told.value !== null && !told.value.over && !drives.value);

/**
 * What is said of this page's class, unless something newer was: an answer and a message may overtake each other.
 *
 * @param {ClassTold} message
 */
export function hear(message) {
  const now = told.peek();
  if (message.id !== settings.class.peek() || (now?.id === message.id && now.version > message.version)) return;
  told.value = message;
}

/**
 * What this seat has answered to a question in a round (null: not sure), or undefined.
 *
 * @param {number} poll
 * @param {number} round
 */
export function answerTo(poll, round) {
  const found = mine.value?.answers.find((one) => one.poll === poll);
  return found?.has[round] ? found.given[round] : undefined;
}

/**
 * This seat's answer to a question in the round that it is in, or was last: a list of one, or empty. A second vote
 * takes over nothing from the first.
 *
 * @param {{id: number, round: number}} poll
 */
export function answersTo(poll) {
  const given = answerTo(poll.id, poll.round);
  return given === undefined ? [] : [given];
}

/**
 * What the server says of the class, by event.
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
