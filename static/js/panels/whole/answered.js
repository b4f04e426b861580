// Asking the server for what takes it a while: asked again until it is there, or refused, or nobody waits any more.

const AGAIN = 500; // ms between two looks

/**
 * `take` gets each answer, and says whether it is the last; `refuse` gets the sentence that ends it, `wait` is
 * called when there is nothing yet. Returns the way to stop.
 *
 * @param {string} address
 * @param {(answer: any) => boolean} take
 * @param {(problem: string) => void} refuse
 * @param {() => void} [wait]
 */
export function asking(address, take, refuse, wait = () => {}) {
  let over = false;
  async function look() {
    while (!over) {
      try {
        const answer = await fetch(address);
        const found = await answer.json();
        if (over) return;
        if (answer.ok && take(found)) return;
        if (!answer.ok) {
          if (!["loading", "busy"].includes(found.error.code)) return refuse(found.error.message);
          wait();
        }
      } catch (error) {
        if (!over) refuse(error instanceof Error ? error.message : String(error));
        return;
      }
      await new Promise((done) => setTimeout(done, AGAIN));
    }
  }
  look();
  return () => {
    over = true;
  };
}
