// Texts of operations and differences of two runs.

import { messagesOf } from "../../core/messages.js";
import { inRegister, inWords } from "../../i18n/operations.js";
import { grouped, sentences, t } from "../../i18n/words.js";
import { chosenToken } from "./comparison.js";

/** @import {Answer, Op} from "./comparison.js" */

/**
 * Describe an operation. `op` is null if the record has no such operation; `kind` is null if the log ends before it.
 * @param {Op | null} op
 * @param {string | null} kind
 * @param {string | null} token the token that it sampled
 */
export function opWords(op, kind, token = null) {
  if (!op) return t(kind === null ? "compare.op.end" : "compare.op.none");
  // bytes are hexadecimal text here; only the sampled token has a text, passed as `token`
  const said = /** @type {import("../../core/trace.js").Op} */ (/** @type {unknown} */ (op));
  const parts = inRegister(messagesOf([said]), "short");
  if (!parts.length) return op.type; // logs of later versions may have more operations
  return sentences(parts.map(([key, values]) => inWords([key, token === null ? values : { ...values, token }])));
}

/** @param {unknown} value of a field */
const fieldText = (value) =>
  value === null || value === undefined
    ? "–"
    : Array.isArray(value)
      ? `[${value.join(", ")}]`
      : typeof value === "number"
        ? Number(value.toPrecision(6))
        : value;

/**
 * List the fields in which two operations differ, for operations with identical texts: ["verdict miss, …", "verdict
 * hit, …"].
 * @param {Op} one
 * @param {Op} other
 */
function fieldsApart(one, other) {
  const [a, b] = /** @type {Record<string, unknown>[]} */ (/** @type {unknown} */ ([one, other]));
  const names = Object.keys(a).filter((field) => JSON.stringify(a[field]) !== JSON.stringify(b[field]));
  return [a, b].map((op) => names.map((field) => `${field} ${fieldText(op[field])}`).join(", "));
}

/**
 * Return the first differing operation of a comparison as {where, a, b}, or null.
 * @param {Pick<Answer, "first_op" | "sequences">} comparison
 */
export function opDifference(comparison) {
  const found = comparison.first_op;
  if (!found) return null;
  let a = opWords(found.a, found.kind_a, chosenToken(comparison, "a", found.a, found.record));
  let b = opWords(found.b, found.kind_b, chosenToken(comparison, "b", found.b, found.record));
  if (a === b && found.a && found.b)
    [a, b] = fieldsApart(found.a, found.b).map((fields) => t("compare.op.apart", { text: a, fields }));
  return { where: t("compare.first_op", { record: grouped(found.record + 1), op: found.op + 1 }), a, b };
}
