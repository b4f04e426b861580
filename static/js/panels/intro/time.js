// Beats of the opening, and easing functions. Pure.

/** @typedef {"next" | "ask" | "again" | "race" | "kept" | "serve" | "fan"} BeatId */

/** Start of each beat in seconds. @type {readonly {id: BeatId, from: number}[]} */
export const BEATS = [
  { id: "next", from: 0 },
  { id: "ask", from: 4 },
  { id: "again", from: 10 },
  { id: "race", from: 16 },
  { id: "kept", from: 23 },
  { id: "serve", from: 31 },
  { id: "fan", from: 39 },
];
export const END = 45;
/** Index of the last beat that needs only the arrays of the first words. */
export const ATTENTION_BEAT = 1;

/** Return the beat at `time`, its index, and the seconds since it began. @param {number} time */
export function beatAt(time) {
  let index = 0;
  while (index + 1 < BEATS.length && time >= BEATS[index + 1].from) index += 1;
  return { ...BEATS[index], index, local: time - BEATS[index].from };
}

/** End of beat `index`, when its picture is complete. @param {number} index */
export const endOf = (index) => (index + 1 < BEATS.length ? BEATS[index + 1].from - 0.01 : END);

/**
 * Progress (0 to 1, easing out) at `now` of a movement from `from` to `to`, in seconds.
 * @param {number} now @param {number} from @param {number} to
 */
export function eased(now, from, to) {
  return 1 - (1 - linear(now, from, to)) ** 3;
}

/** `eased` with linear progress. @param {number} now @param {number} from @param {number} to */
export const linear = (now, from, to) => Math.max(0, Math.min(1, (now - from) / (to - from)));

/** Interpolate linearly between `a` and `b`. @param {number} a @param {number} b @param {number} t */
export const between = (a, b, t) => a + (b - a) * t;
