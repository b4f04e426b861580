// Questions of a lesson in words: stem and answers.

import { bytesText, grouped, t } from "./words.js";

/** Return numbers in the page's format, bytes with their unit. @param {Record<string, string | number>} values */
export const shownValues = (values) =>
  Object.fromEntries(
    Object.entries(values).map(([name, value]) => {
      if (typeof value !== "number") return [name, value];
      return [name, name.endsWith("_bytes") ? bytesText(value) : value > 9999 ? grouped(value) : value];
    }),
  );

/** Return the stem of a question. @param {import("../core/wire.js").AskItem} item */
export function stemText({ rule, values, of = null }) {
  const stem = t(`question.${rule}.stem`, shownValues(values));
  return of === null ? stem : t("question.of_sequence", { seq: of, stem });
}

/** Return the text of an answer. @param {import("../core/wire.js").AskOption} option */
export const optionText = ({ text, values }) =>
  t(text, text === "answer.bytes" ? { n: bytesText(Number(values.n)) } : shownValues(values));

/** Return the letter of an answer: A, B, C. @param {number} i */
export const letter = (i) => String.fromCharCode(65 + i);
