// Polls a slow server request until it is answered, rejected or cancelled.

/** @import {Refusal} from "../../i18n/language.js" */

const AGAIN = 500; // ms between two requests

/**
 * Poll `address`. `take` receives each answer and returns whether it is the last, `refuse` receives the error that ends
 * polling, `wait` is called while there is no answer. Returns a function that stops polling.
 * @param {string} address
 * @param {(answer: any) => boolean} take
 * @param {(problem: Refusal) => void} refuse
 * @param {() => void} [wait]
 */
export function pollAnswer(address, take, refuse, wait = () => {}) {
  let over = false;
  async function look() {
    while (!over) {
      try {
        const answer = await fetch(address);
        const found = await answer.json();
        if (over) return;
        if (answer.ok && take(found)) return;
        if (!answer.ok) {
          if (!["loading", "busy"].includes(found.error.code)) return refuse(found.error);
          wait();
        }
      } catch (error) {
        if (!over) refuse(error instanceof Error ? error : { message: String(error) });
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
