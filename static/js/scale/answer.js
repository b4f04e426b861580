// What the server says to the inputs of a section, as they are now.

import { useEffect, useState } from "../../vendor/preact/hooks.js";
import { language } from "../tell/language.js";
import { t } from "../tell/words.js";

const WAIT = 80; // ms: a slider that is dragged asks when it rests
const AGAIN = 1500; // ms, while the server's model is on its way

/** @typedef {{code: string, message: string, said?: Record<string, string>}} Refused */

/**
 * The newest answer of `GET api/scale/<section>?...`; while another is on its way, the one before. In place of numbers
 * `problem`: the server's one sentence on inputs that cannot be.
 *
 * @param {string} section
 * @param {Record<string, unknown>} inputs those that are null are left to the server
 * @param {string | null} [body] what is posted with them
 * @returns {{value: any, problem: string | null}}
 */
export function useAnswer(section, inputs, body = null) {
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
  return { value, problem: refused && (refused.said?.[language.value] ?? refused.message) };
}
