// Operations and differences of two runs in words.

import { tokenOf } from "../../runs/comparison.js";
import { listed } from "../../tell/sentence.js";
import { grouped, t } from "../../tell/words.js";

const name = (id) => t("sequence.name", { id });

/** An operation in words; null: the record has no such operation, `kind` null: the log ends before. */
export function opWords(op, kind, label = null) {
  if (!op) return t(kind === null ? "compare.op.end" : "compare.op.none");
  const seq = op.seq_id === undefined || op.seq_id === null ? "" : name(op.seq_id);
  const values = {
    name: seq,
    block: op.block_id,
    n: op.num_tokens ?? op.num_cached_tokens ?? op.needed ?? op.prompt_token_ids?.length,
    hit: op.num_hit_tokens,
    from: op.start,
    position: op.position,
    logical: op.logical,
    token: label ?? `#${op.token_id}`,
    request: op.request_id,
    parent: op.parent_seq_id === undefined ? "" : name(op.parent_seq_id),
    for: op.for_seq_id === undefined ? "" : name(op.for_seq_id),
    ids: op.block_ids ? listed(op.block_ids) : "",
    src: op.src,
    dst: op.dst,
  };
  const key =
    op.type === "sample" && op.sampled_token_id !== null ? "compare.op.sample_chosen" : `compare.op.${op.type}`;
  const text = t(key, values);
  return text === key ? t("compare.op.unknown", { type: op.type }) : text; // a later program may know more operations
}

const fieldText = (value) =>
  value === null || value === undefined
    ? "–"
    : Array.isArray(value)
      ? `[${value.join(", ")}]`
      : typeof value === "number"
        ? Number(value.toPrecision(6))
        : value;

/** What two operations have that the other has not, where words do not tell them apart: ["verdict miss, …", "verdict hit, …"]. */
function fieldsApart(a, b) {
  const names = Object.keys(a).filter((field) => JSON.stringify(a[field]) !== JSON.stringify(b[field]));
  return [a, b].map((op) => names.map((field) => `${field} ${fieldText(op[field])}`).join(", "));
}

/** The first differing operation of a comparison: {where, a, b}; null when there is none. */
export function opDifference(comparison) {
  const found = comparison.first_op;
  if (!found) return null;
  let a = opWords(found.a, found.kind_a, tokenOf(comparison, "a", found.a, found.record));
  let b = opWords(found.b, found.kind_b, tokenOf(comparison, "b", found.b, found.record));
  if (a === b && found.a && found.b)
    [a, b] = fieldsApart(found.a, found.b).map((fields) => t("compare.op.apart", { text: a, fields }));
  return { where: t("compare.first_op", { record: grouped(found.record + 1), op: found.op + 1 }), a, b };
}
