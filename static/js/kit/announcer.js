// Rate limiting of spoken sentences: announced once they stop changing, and occasionally while they change fast.

const QUIET = 500; // ms without another sentence before the last one is announced
const LONGEST = 5000; // ms between two announcements while sentences keep arriving

/** @typedef {Pick<typeof globalThis, "setTimeout" | "clearTimeout" | "performance">} Clock */

/**
 * Return a function that takes every sentence and calls `say` with those to announce; the last one is always announced.
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
