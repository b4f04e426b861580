// Figure that answers a question of a lesson. It is hidden while the open lesson still has to ask that question.

import { t } from "../i18n/words.js";
import { isOpenQuestion } from "../state/lessons.js";
import { html } from "./html.js";

/** @param {{rule: string, children: import("./html.js").Children}} props `rule`: of the question */
export const Spoiler = ({ rule, children }) =>
  isOpenQuestion(rule) ? html`<p class="hint figure-asked" data-rule=${rule}>${t("figure.asked")}</p>` : children;
