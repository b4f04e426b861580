// Hook for synchronous or asynchronous queries: the previous result stays until the next arrives.

import { useEffect, useMemo, useState } from "../../vendor/preact/hooks.js";

/**
 * Return the result of `ask`, which is called again when an element of `about` changes; null before the first result.
 * `problem`: reason of a failure, or "".
 * @template T
 * @param {(() => T | Promise<T>) | null} ask null: no query
 * @param {unknown[]} about
 * @param {number} [still] ms that `about` must stay unchanged before the query
 * @returns {{answer: T | null, problem: string}}
 */
export function useQuery(ask, about, still = 0) {
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
