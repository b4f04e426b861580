// Polls a slow server request until it is answered, rejected or cancelled.

/** @import {Refusal} from "../../i18n/language.js" */

const INTERVAL_MS = 500; // between two requests

/**
 * Poll `address`. `take` receives each answer and returns whether it is the last one, `refuse` receives an error, which
 * ends polling, and `wait` is called while there is no answer. Returns a function that stops polling.
 * @param {string} address @param {(answer: any) => boolean} take @param {(problem: Refusal) => void} refuse
 * @param {() => void} [wait]
 */
export function pollAnswer(address, take, refuse, wait = () => {}) {
  let isStopped = false;
  async function poll() {
    while (!isStopped) {
      try {
        const answer = await fetch(address);
        const found = await answer.json();
        if (isStopped) return;
        if (answer.ok && take(found)) return;
        if (!answer.ok) {
          if (!["loading", "busy"].includes(found.error.code)) return refuse(found.error);
          wait();
        }
      } catch (error) {
        if (!isStopped) refuse(error instanceof Error ? error : { message: String(error) });
        return;
      }
      await new Promise((done) => setTimeout(done, INTERVAL_MS));
    }
  }
  poll();
  return () => {
    isStopped = true;
  };
}
