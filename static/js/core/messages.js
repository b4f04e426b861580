// Messages of operations: the keys of texts and the values they mention. Mirrors engine/trace/messages/facets.py, and
// merges operations of one type. Pure.

import { labelText, loneLabel } from "./labels.js";
import { STRUCTS } from "./schema.js";

/** @import {Header, Op, StepRecord} from "./trace.js" */

/**
 * @typedef {string | number | boolean | null | undefined} Scalar
 * @typedef {Record<string, any>} Values by placeholder name: fields of any type, which i18n/operations.js formats by
 * name
 * @typedef {[key: string, values: Values]} MessageKey key of a text, without its register (short, long, plain)
 * @typedef {{header: Header, record: StepRecord, ops: Op[], place: number}} Context position of an operation; `ops` are
 * the record's, with reasons
 * @typedef {object} Facet
 * @property {string} name
 * @property {string[]} values
 * @property {(op: any, context: Context | null) => string | null} of value for an operation `op`
 * @property {boolean} [separate] whether operations are reported one by one instead of merged
 */

/**
 * Return the texts for operations of one type: that of the type, then one per value of each facet. `contexts`:
 * position of each operation, null if unknown.
 * @param {Op[]} ops
 * @param {(Context | null)[]} contexts
 * @returns {MessageKey[]}
 */
export function messagesOf(ops, contexts = ops.map(() => null)) {
  const [{ type }] = ops;
  const own = ops.map((op, i) => valuesOf(op, contexts[i]));
  /** @type {MessageKey[]} */
  const found = [[`op.${type}`, merged(own)]];
  for (const facet of facetsOf(type)) {
    const values = ops.map((op, i) => facet.of(op, contexts[i]));
    for (const value of new Set(values)) {
      if (value === null) continue;
      const those = own.filter((_, i) => values[i] === value);
      for (const some of facet.separate ? those.map((one) => [one]) : [those])
        found.push([`op.${type}.${facet.name}.${value}`, merged(some)]);
    }
  }
  return found;
}

// ── Facets ───────────────────────────────────────────────────────────────────────────────────────────────────────────

/** @type {Map<string, Facet[]>} */
const facets = new Map();

/** Return the facets of an operation type, in order. @param {string} type @returns {Facet[]} */
export function facetsOf(type) {
  let found = facets.get(type);
  if (!found) {
    const fields = fieldFacets(type);
    found = (CASES[type] ?? fields).map((one) =>
      typeof one === "string" ? /** @type {Facet} */ (fields.find(({ name }) => name === one)) : one,
    );
    facets.set(type, found);
  }
  return found;
}

/**
 * Return a facet for every field with a fixed set of values. It is null if the log lacks a required field.
 * @param {string} type
 * @returns {Facet[]}
 */
function fieldFacets(type) {
  const [required, optional] = structs[structOf[type]] ?? [{}, {}];
  return Object.entries({ ...required, ...optional }).flatMap(([name, kind]) => {
    if (kind === "bool") return [{ name, values: ["false", "true"], of: (op) => String(op[name] ?? false) }];
    const one = kind.one ?? kind.either?.find((/** @type {any} */ each) => each.one)?.one;
    if (!one) return [];
    const none = kind.one ? null : "none";
    return [{ name, values: none ? [...one, none] : one, of: (op) => op[name] ?? none }];
  });
}

/** @type {any} table of a trace's types; core/types.js explains its shape */
const structs = STRUCTS;
/** @type {Record<string, string>} type -> name of its struct */
const structOf = structs.StepRecord[1].ops.list.tagged;

/** @param {string} name @param {string} values @param {Facet["of"]} of @returns {Facet} */
const facet = (name, values, of) => ({ name, values: values.split(" "), of });

/** @type {Record<string, (string | Facet)[]>} by type: facets in order; a name stands for the field's facet */
const CASES = {
  submit: [
    facet("rank", "usual given", (op) => (op.priority ? "given" : "usual")),
    facet("salt", "none given", (op) => (op.cache_salt ? "given" : "none")),
  ],
  lookup: [
    "verdict",
    "reason",
    facet("last_block", "asked spared", (op, at) => {
      const size = Number(at?.header.engine.block_size);
      if (!size) return null;
      const whole = op.verdict === "miss" || (op.verdict === "hit" && op.num_hit_tokens === op.num_tokens - size);
      return whole && op.num_tokens % size === 0 ? "spared" : "asked"; // the last token is always computed
    }),
  ],
  lookup_external: [
    "verdict",
    facet("times", "none known unknown", (op) => {
      const known = (op.load_seconds ?? null) !== null && (op.compute_seconds ?? null) !== null;
      return known ? "known" : op.verdict === "miss" ? "none" : "unknown";
    }),
  ],
  admit: [
    facet("entry", "new resumed swapped", (op) =>
      op.num_swapped_tokens > 0 ? "swapped" : op.resumed ? "resumed" : "new",
    ),
    facet("external", "none some", (op) => (op.num_external_tokens > 0 ? "some" : "none")),
    facet("computed", "now later", (op, at) => at && (batchEntry(op.seq_id, at) ? "now" : "later")),
  ],
  evict: [
    facet("cause", "allocation promise", (op, at) => (at && takerOf(op, at) === null ? "promise" : "allocation")),
    facet("life", "unknown known", (op) => (op.lifetime_steps > 0 ? "known" : "unknown")),
  ],
  free: ["reason", "to"],
  release: ["reason", "to"],
  stored: ["again"],
  removed: [facet("copies", "none left", (op) => ((op.num_left ?? 0) > 0 ? "left" : "none"))],
  share: [], // `revived` is part of the text of the type
  sample: [
    {
      ...facet("settled", "no outside", (op) => ((op.sampled_token_id ?? null) === null ? "no" : "outside")),
      separate: true,
    },
  ],
  preempt: [
    facet("whom", "other itself", (op) => (op.for_seq_id === op.seq_id ? "itself" : "other")),
    "reason",
    facet("cost", "swap lost kept", (op) =>
      op.mode !== "recompute" ? op.mode : op.num_kept_tokens > 0 ? "kept" : "lost",
    ),
    "swap_refused",
  ],
  finish: ["reason", facet("cause", "unsaid said", (op) => (op.detail ? "said" : "unsaid"))],
};

// ── Values ─────────────────────────────────────────────────────────────────────────────────────────────────────────

const LIMITS = ["block_size", "max_num_seqs", "max_num_batched_tokens"];

/**
 * Return the values that the texts of one operation may name.
 * @param {Op} op
 * @param {Context | null} at
 * @returns {Values}
 */
function valuesOf(op, at) {
  const limits = at ? LIMITS.map((name) => [name, at.header.engine[name]]) : [];
  const { type, ...fields } = op;
  return { ...Object.fromEntries(limits), ...fields, ...derived(op), ...(at ? fromRecord(op, at) : {}) };
}

/** @param {Op} op @returns {Values} */
function derived(op) {
  switch (op.type) {
    case "submit":
      return { num_prompt_tokens: op.prompt_token_ids.length, place: op.queue_position + 1 };
    case "lookup":
      return { num_blocks: op.block_ids.length };
    case "lookup_external":
      return { num_blocks: op.media?.length ?? 0 };
    case "send":
      return { num_blocks: op.block_ids.length };
    case "choose":
      return {
        token: op.token_bytes instanceof Uint8Array ? labelText(loneLabel(op.token_bytes)) : idText(op.token_id),
      };
    case "draft":
      return { num_drafts: op.token_ids.length, text: op.token_bytes.map((b) => labelText(loneLabel(b))).join("") };
    case "verify":
      return { num_rejected: op.num_drafted - op.num_accepted };
    case "sample":
      return { token: idText(op.token_id), sampled_token: idText(op.sampled_token_id) };
    case "forget":
      return { num_keys: op.positions.reduce((sum, own) => sum + own.length, 0) };
    case "preempt":
      return { num_lost_tokens: op.num_recompute_tokens || op.num_computed_tokens }; // field of older logs
    case "rank":
      return { num_sequences: op.seq_ids.length };
    default:
      return {};
  }
}

/** @param {number | null | undefined} token */
const idText = (token) => ((token ?? null) === null ? undefined : `#${token}`);

/** Return an operation's values from the record and header. @param {Op} op @param {Context} at @returns {Values} */
function fromRecord(op, at) {
  const size = Number(at.header.engine.block_size);
  switch (op.type) {
    case "lookup":
      return { num_full_blocks: Math.floor((op.num_tokens - 1) / size) };
    case "admit":
      return { num_scheduled_tokens: batchEntry(op.seq_id, at)?.token_ids.length };
    case "allocate": {
      const entry = batchEntry(op.seq_id, at);
      const copy = at.ops[at.place + 1];
      const first = entry?.start ?? op.logical * size;
      return {
        position: op.logical * size,
        first,
        last: first + (entry?.token_ids.length ?? size) - 1,
        src: copy?.type === "copy" ? copy.src : undefined,
      };
    }
    case "evict":
      return { taker_seq_id: takerOf(op, at) ?? op.seq_id };
    case "sample":
      return {
        token: tokenText(op.seq_id, op.token_id, at),
        sampled_token: tokenText(op.seq_id, op.sampled_token_id, at),
      };
    default:
      return {};
  }
}

/** @param {number} seq @param {Context} at */
const batchEntry = (seq, { record }) => record.batch?.find((entry) => entry.seq_id === seq);

/**
 * Return the sequence whose allocation takes the evicted block in the same record.
 * @param {import("./trace.js").Evict} evicted
 * @param {Context} at
 */
function takerOf(evicted, { ops, place }) {
  for (const op of ops.slice(place + 1))
    if (op.type === "allocate" && op.block_id === evicted.block_id) return op.seq_id;
  return null;
}

/**
 * Return a token's text if the sequence's output contains it, else its id.
 * @param {number} seq
 * @param {number | null | undefined} token
 * @param {Context} at
 */
function tokenText(seq, token, { record }) {
  if ((token ?? null) === null) return undefined;
  const outputs = (record.outputs ?? []).filter((one) => one.seq_id === seq);
  const known = [...outputs, ...outputs.flatMap(({ top }) => top)].find((one) => one.token_id === token);
  return known ? labelText(loneLabel(known.token_bytes)) : idText(token);
}

// ── Several operations ─────────────────────────────────────────────────────────────────────────────────────────────

/** Return whether a value is the id of a sequence. Merging lists such ids, and those of blocks. */
export const isSequence = (/** @type {string} */ name) => name.endsWith("seq_id") || name === "evicted_for";
const BLOCKS = new Set(["block_id", "block_ids", "logical", "cpu_block_id", "lost_block_id", "src", "dst"]);
export const isBlocks = (/** @type {string} */ name) => BLOCKS.has(name);

/**
 * Merge the values of several operations and add their number: ids are listed, counts (`num_…`) and seconds are summed,
 * steps become a range; for other values the first is used.
 * @param {Values[]} all
 * @returns {Values}
 */
function merged(all) {
  const seqs = new Set(all.map(({ seq_id }) => seq_id));
  /** @type {Values} */
  const found = { n: all.length, num_seqs: seqs.size };
  for (const name of new Set(all.flatMap((values) => Object.keys(values)))) {
    const present = all.map((values) => values[name]).filter((value) => (value ?? null) !== null);
    if (present.length) found[name] = joined(name, present);
  }
  return found;
}

/** @param {string} name @param {any[]} values */
function joined(name, values) {
  if (isSequence(name)) return [...new Set(values)];
  if (isBlocks(name) || name === "media") return values.flat();
  if (name.startsWith("num_") || name.endsWith("_seconds") || typeof values[0] === "boolean")
    return values.reduce((sum, value) => sum + Number(value), 0);
  if (name.endsWith("_steps") && typeof values[0] === "number")
    return [...new Set([Math.min(...values), Math.max(...values)])];
  return values[0];
}
