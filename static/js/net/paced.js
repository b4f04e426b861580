// Requests for what is selected: one at a time, and none while the selection changes faster than an answer takes.

const LEAST_WAIT = 250; // ms for which a selection must be stable before it is requested

/**
 * Return a function that calls `ask` after the selection has been stable, unless a call is under way, and returns a
 * function that cancels it.
 * @param {() => Promise<void>} ask
 */
export function paced(ask) {
  let underWay = false;
  let took = 0; // ms of the last call
  const run = async () => {
    if (underWay) return;
    underWay = true;
    const began = performance.now();
    try {
      await ask();
    } finally {
      took = performance.now() - began;
      underWay = false;
    }
  };
  return () => {
    const timer = setTimeout(run, Math.max(LEAST_WAIT, 2 * took));
    return () => clearTimeout(timer);
  };
}
