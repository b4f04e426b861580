// Operations and differences of two runs in words.

import { partsOf } from "../../core/telling.js";
import { inRegister, inWords } from "../../tell/operations.js";
import { grouped, sentences, t } from "../../tell/words.js";
import { chosenToken } from "./comparison.js";

/**
 * @typedef {import("./comparison.js").Answer} Answer
 * @typedef {import("./comparison.js").Op} Op
 */

/**
 * An operation in words; null: the record has no such operation, `kind` null: the log ends before.
 * @param {Op | null} op
 * @param {string | null} kind
 * @param {string | null} token that it chose
 */
export function opWords(op, kind, token = null) {
  if (!op) return t(kind === null ? "compare.op.end" : "compare.op.none");
  // its bytes are text here; only the token that it chose has words with them, and that is given
  const said = /** @type {import("../../core/trace.js").Op} */ (/** @type {unknown} */ (op));
  const parts = inRegister(partsOf([said]), "short");
  if (!parts.length) return op.type; // a later program may know more operations
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
 * What two operations have that the other has not, where words do not tell them apart: ["verdict miss, …", "verdict
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
 * The first differing operation of a comparison: {where, a, b}; null when there is none.
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
