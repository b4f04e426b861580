// When a sentence is said aloud: after it has stood still, and now and then while things rush by.

const QUIET = 500; // ms without another sentence: this one is the last
const LONGEST = 5000; // ms at most between two announcements while sentences keep coming

/** @typedef {Pick<typeof globalThis, "setTimeout" | "clearTimeout" | "performance">} Clock */

/**
 * A function that takes every sentence and calls `say` with those to be announced; the last one always is.
 *
 * @param {(text: string) => void} say
 * @param {{quiet?: number, longest?: number, clock?: Clock}} [options] times in ms
 */
export function announcer(say, { quiet = QUIET, longest = LONGEST, clock = globalThis } = {}) {
  /** @type {ReturnType<Clock["setTimeout"]> | undefined} */
  let timer;
  /** @type {number | null} */
  let waitingSince = null;
  let latest = "";
  const speak = () => {
    clock.clearTimeout(timer);
    waitingSince = null;
    say(latest);
  };
  /** @param {string} text */
  return (text) => {
    latest = text;
    const now = clock.performance.now();
    waitingSince ??= now;
    clock.clearTimeout(timer);
    timer = clock.setTimeout(speak, Math.max(0, Math.min(quiet, waitingSince + longest - now)));
  };
}
