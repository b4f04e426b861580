// What the guards of the cache's books say, in words.

import { hasText, t } from "./words.js";

/**
 * An objection {rule, text, seq_id, block_id, said, counted} as a clause; one without a rule that is known here is
 * quoted.
 * @param {import("../core/trace.js").Objection} one
 */
export function objectionWords(one) {
  const key = `objection.${one.rule}`;
  return t(hasText(key) ? key : "objection.other", one);
}

/**
 * That a step failed by it.
 * @param {import("../core/trace.js").Objection} one
 */
export const stepFailed = (one) => t("error.step", { text: objectionWords(one) });
