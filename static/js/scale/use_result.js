// Hook for the server's results on a section's current inputs.

import { useEffect, useState } from "../../vendor/preact/hooks.js";
import { refusalText } from "../i18n/language.js";
import { t } from "../i18n/words.js";

const WAIT = 80; // ms; debounces slider movements
const AGAIN = 1500; // ms between retries while the server's model is loading

/** @typedef {{code: string, message: string, said?: Record<string, string>}} Refused */

/**
 * Return the latest response of `GET api/scale/<section>?...`; the previous one stays while a request is pending.
 * `problem`: the server's sentence on invalid inputs, in place of numbers.
 *
 * @param {string} section
 * @param {Record<string, unknown>} inputs null values are left to the server
 * @param {string | null} [body] posted along with them
 * @returns {{value: any, problem: string | null}}
 */
export function useResult(section, inputs, body = null) {
  const [now, setNow] = useState({ value: /** @type {any} */ (null), refused: /** @type {Refused | null} */ (null) });
  const given = Object.entries(inputs).filter(([, value]) => value !== null && value !== "");
  const query = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  useEffect(() => {
    let timer = 0;
    const gone = new AbortController();
    const ask = async () => {
      try {
        const sent = body === null ? {} : { method: "POST", body };
        const answer = await fetch(`api/scale/${section}?${query}`, { signal: gone.signal, ...sent });
        const found = await answer.json();
        setNow(answer.ok ? { value: found, refused: null } : { value: null, refused: found.error });
        if (found.is_loading) timer = setTimeout(ask, AGAIN);
      } catch {
        if (!gone.signal.aborted) setNow({ value: null, refused: { code: "", message: t("error.no_answer") } });
      }
    };
    timer = setTimeout(ask, WAIT);
    return () => {
      clearTimeout(timer);
      gone.abort();
    };
  }, [section, query, body]);
  const { value, refused } = now;
  return { value, problem: refused && refusalText(refused) };
}
