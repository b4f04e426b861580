// Hook for the server's results on a section's current inputs.

import { useEffect, useState } from "../../vendor/preact/hooks.js";
import { refusalText } from "../i18n/language.js";
import { t } from "../i18n/words.js";

const WAIT = 80; // ms; debounces slider movements
const RETRY = 1500; // ms between requests while the server's model is loading

/** @typedef {{code: string, message: string, said?: Record<string, string>}} Refused */

/**
 * Return the latest response of `GET api/scale/<section>?...`. The previous response remains while a request is
 * pending. `problem`: the server's error on invalid inputs; `value` is then null.
 * @param {string} section
 * @param {Record<string, unknown>} inputs null and "" are omitted, so that the server's defaults apply
 * @param {string | null} [body] sent by POST if not null
 * @returns {{value: any, problem: string | null}}
 */
export function useResult(section, inputs, body = null) {
  const [now, setNow] = useState({ value: /** @type {any} */ (null), refused: /** @type {Refused | null} */ (null) });
  const given = Object.entries(inputs).filter(([, value]) => value !== null && value !== "");
  const query = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  useEffect(() => {
    let timer = 0;
    const gone = new AbortController();
    const request = async () => {
      try {
        const sent = body === null ? {} : { method: "POST", body };
        const answer = await fetch(`api/scale/${section}?${query}`, { signal: gone.signal, ...sent });
        const found = await answer.json();
        setNow(answer.ok ? { value: found, refused: null } : { value: null, refused: found.error });
        if (found.is_loading) timer = setTimeout(request, RETRY);
      } catch {
        if (!gone.signal.aborted) setNow({ value: null, refused: { code: "", message: t("error.no_answer") } });
      }
    };
    timer = setTimeout(request, WAIT);
    return () => {
      clearTimeout(timer);
      gone.abort();
    };
  }, [section, query, body]);
  const { value, refused } = now;
  return { value, problem: refused && refusalText(refused) };
}
