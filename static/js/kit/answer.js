// What is asked of somebody who answers at once, or later: the last answer stays until the next one is here.

import { useEffect, useMemo, useState } from "../../vendor/preact/hooks.js";

/**
 * The answer to `ask`, which is asked anew when one of `about` is another; null: none has come yet. `problem`: why none
 * came, or "".
 *
 * @template T
 * @param {(() => T | Promise<T>) | null} ask null: nothing is asked
 * @param {unknown[]} about
 * @param {number} [still] ms for which `about` stays the same before it is asked
 * @returns {{answer: T | null, problem: string}}
 */
export function useAnswer(ask, about, still = 0) {
  const [late, setLate] = useState(/** @type {{answer: T | null, problem: string}} */ ({ answer: null, problem: "" }));
  const now = useMemo(() => (ask && !still ? ask() : null), about);
  useEffect(() => {
    if (!ask || (now !== null && !(now instanceof Promise))) return undefined;
    let over = false;
    const timer = setTimeout(() => {
      Promise.resolve(now ?? ask()).then(
        (answer) => over || setLate({ answer, problem: "" }),
        (error) => over || setLate(({ answer }) => ({ answer, problem: error.message })),
      );
    }, still);
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, about);
  return now === null || now instanceof Promise ? late : { answer: now, problem: "" };
}
