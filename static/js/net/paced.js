// Requests about the selection: one at a time, and none while the selection changes faster than a response takes.

const MIN_WAIT = 250; // ms for which a selection must be stable before the request

/**
 * Return a function that schedules a call of `ask` after the selection has been stable, and returns a
 * function that cancels it. The call is skipped if another one is pending.
 * @param {() => Promise<void>} ask
 */
export function paced(ask) {
  let isPending = false;
  let duration = 0; // ms of the last call
  const run = async () => {
    if (isPending) return;
    isPending = true;
    const began = performance.now();
    try {
      await ask();
    } finally {
      duration = performance.now() - began;
      isPending = false;
    }
  };
  return () => {
    const timer = setTimeout(run, Math.max(MIN_WAIT, 2 * duration));
    return () => clearTimeout(timer);
  };
}
