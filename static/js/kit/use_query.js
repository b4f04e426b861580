// Hook for synchronous or asynchronous queries: the previous result stays until the next arrives.

import { useEffect, useMemo, useState } from "../../vendor/preact/hooks.js";

/**
 * Return the result of `ask`, which is called again when an element of `dependencies` changes; null before the first
 * result. `problem`: reason of a failure, or "".
 * @template T
 * @param {(() => T | Promise<T>) | null} ask null: no query
 * @param {unknown[]} dependencies
 * @param {number} [delay] ms for which `dependencies` must be unchanged before the query
 * @returns {{answer: T | null, problem: string}}
 */
export function useQuery(ask, dependencies, delay = 0) {
  const [asyncResult, setAsyncResult] = useState(
    /** @type {{answer: T | null, problem: string}} */ ({ answer: null, problem: "" }),
  );
  const now = useMemo(() => (ask && !delay ? ask() : null), dependencies);
  useEffect(() => {
    if (!ask || (now !== null && !(now instanceof Promise))) return undefined;
    let isCancelled = false;
    const timer = setTimeout(() => {
      Promise.resolve(now ?? ask()).then(
        (answer) => isCancelled || setAsyncResult({ answer, problem: "" }),
        (error) => isCancelled || setAsyncResult(({ answer }) => ({ answer, problem: error.message })),
      );
    }, delay);
    return () => {
      isCancelled = true;
      clearTimeout(timer);
    };
  }, dependencies);
  return now === null || now instanceof Promise ? asyncResult : { answer: now, problem: "" };
}
