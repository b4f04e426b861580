// What the guards of the cache's books say, in words. Not among the texts of a first visit: few ever hear of it.

import { settings } from "../model/settings.js";
import { fill, t } from "./index.js";
import * as TEXTS from "./topics/objections.js";

/** An objection {rule, text, seq_id, block_id, said, counted} as a clause; one without a rule that is known here is quoted. */
export function objectionWords(one) {
  const texts = TEXTS[settings.lang.value];
  return fill(Object.hasOwn(texts, one.rule) ? texts[one.rule] : texts.other, one);
}

/** That a step failed by it. */
export const stepFailed = (one) => t("error.step", { text: objectionWords(one) });
