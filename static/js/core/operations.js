// What a record decided, operation by operation, as keys of texts with their numbers. Neighbours that say the same of one
// sequence are one entry. Pure; the page puts the keys into words.

import { allocationReason, freeReason } from "./decisions.js";
import { blockGroups, groupOf } from "./groups.js";
import { labelText, loneLabel } from "./labels.js";
import { lanesOf } from "./lanes.js";

/**
 * The entries of record `index` in the order in which they happened: `{at, type, seq, lines: [[key, values], …]}`.
 * `at` is the place of the first operation in `ops`, `seq` the sequence it is about (null: several or none), `group` the block
 * group of its blocks (-1: none). In values `name` and `for` are sequence ids, `ids` lists of blocks, `bytes` byte counts, and
 * `layers` those of the block group, where a run has several.
 */
export function operationsOf(log, index) {
  const record = log.records[index];
  const groups = blockGroups(log.header);
  return toldTogether(record.ops ?? [], groups).map((places) => {
    const ops = places.map((at) => record.ops[at]);
    const group = groupOfOp(groups, ops[0]);
    const seqs = new Set(ops.map((op) => op.seq_id));
    const seq = seqs.size === 1 ? (ops[0].seq_id ?? null) : null;
    const lines = WORDS[ops[0].type]({ log, record, ops, at: places[0], name: seq, seqs: seqs.size });
    if (group >= 0 && groups.length > 1) lines[0] = [lines[0][0], { ...lines[0][1], layers: groups[group].layers }];
    return { at: places[0], type: ops[0].type, seq, group, lines };
  });
}

const groupOfOp = (groups, op) => groupOf(groups, op.block_id ?? op.src ?? -1);

const WHOLE_STEP = new Set(["write", "sample"]); // said once of all sequences

const JOINED = new Set(["allocate", "share", "evict", "cache", "free", "release", "swap_out", "swap_in", "drop"]);
const BETWEEN = new Set(["allocate", "evict"]); // they alternate: a block is evicted, then allocated

/** Lists of places of operations that are told together; those on blocks of different groups are told apart. */
function toldTogether(ops, groups) {
  const found = [];
  const open = new Map(); // type, sequence and block group -> the list that the next of them joins
  ops.forEach((op, at) => {
    const alike = `${op.type}/${op.seq_id}/`;
    const key = WHOLE_STEP.has(op.type) ? op.type : `${alike}${groupOfOp(groups, op)}`;
    if (!WHOLE_STEP.has(op.type) && !BETWEEN.has(op.type))
      for (const other of open.keys()) if (!other.startsWith(alike) && other.includes("/")) open.delete(other);
    if (open.has(key)) return open.get(key).push(at);
    found.push([at]);
    if (WHOLE_STEP.has(op.type) || JOINED.has(op.type)) open.set(key, found.at(-1));
  });
  return found;
}

const blocks = (ops) => ({ n: ops.length, ids: ops.map((op) => op.block_id) });
const total = (ops, field) => ops.reduce((sum, op) => sum + (op[field] ?? 0), 0);

const WORDS = {
  submit({ ops: [op], name }) {
    return [["op.submit", { name, n: op.prompt_token_ids.length, max: op.max_tokens, place: op.queue_position + 1 }]];
  },

  lookup({ log, ops: [op], name }) {
    const size = log.header.engine.block_size;
    const values = {
      name,
      n: op.num_tokens,
      hit: op.num_hit_tokens,
      blocks: op.block_ids.length,
      ids: op.block_ids,
      full: Math.floor((op.num_tokens - 1) / size),
      size,
    };
    const lines = [[`op.lookup.${op.verdict}`, values]];
    if (op.reason)
      lines.push([
        `op.reason.${op.reason}`,
        {
          for: op.closest_seq_id,
          s: op.num_shared_tokens,
          size,
          lost: op.lost_block_id,
          record: op.evicted_in === null ? null : op.evicted_in + 1,
          taker: op.evicted_for,
        },
      ]);
    return lines;
  },

  admit({ record, ops: [op], name }) {
    const entry = record.batch?.find((e) => e.seq_id === op.seq_id);
    const values = {
      name,
      n: entry?.token_ids.length ?? 0,
      cached: op.num_cached_tokens,
      swapped: op.num_swapped_tokens ?? 0,
    };
    const key = values.swapped > 0 ? "op.admit.swapped" : op.resumed ? "op.admit.resumed" : "op.admit.new";
    return [[entry ? key : "op.admit.taken_back", values]];
  },

  defer({ log, ops: [op], name }) {
    const { max_num_seqs: places, max_num_batched_tokens: budget } = log.header.engine;
    return [[`op.defer.${op.reason}`, { name, needed: op.needed, available: op.available, places, budget }]];
  },

  allocate({ log, record, ops, at, name }) {
    const reason = allocationReason(log.header, record, at);
    return [
      [
        `op.allocate.${reason.why}`,
        { name, ...blocks(ops), from: reason.start, to: reason.end - 1, position: reason.position, src: reason.src },
      ],
    ];
  },

  share({ ops, name }) {
    return [["op.share", { name, ...blocks(ops), revived: ops.filter((op) => op.revived).length }]];
  },

  evict({ record, ops, at, name }) {
    const [op] = ops;
    const taker = record.ops.slice(at + 1).find((o) => o.type === "allocate" && o.block_id === op.block_id);
    const lines = [[taker ? "op.evict.room" : "op.evict.promise", { name: taker?.seq_id ?? name, ...blocks(ops) }]];
    if (ops.length === 1 && op.lifetime_steps > 0)
      lines.push(["op.evict.life", { life: op.lifetime_steps, idle: op.idle_steps, hits: op.num_hits }]);
    return lines;
  },

  fork({ ops: [op], name }) {
    return [["op.fork", { name, for: op.parent_seq_id }]];
  },

  copy({ ops: [op], name }) {
    return [["op.copy", { name, src: op.src, dst: op.dst }]];
  },

  cache({ ops, name }) {
    return [["op.cache", { name, ...blocks(ops) }]];
  },

  write({ ops, seqs }) {
    return [["op.write", { n: total(ops, "num_tokens"), seqs }]];
  },

  sample({ record, ops, seqs }) {
    const overruled = ops.filter((op) => (op.sampled_token_id ?? null) !== null);
    return [
      ["op.sample", { n: ops.length, seqs }],
      ...overruled.map((op) => ["op.sample.overruled", { name: op.seq_id, token: sampledText(record, op) }]),
    ];
  },

  choose({ ops: [op], name }) {
    return [["op.choose", { name, position: op.position, token: labelText(loneLabel(op.token_bytes)) }]];
  },

  adjust({ ops: [op] }) {
    return [["op.adjust", { request: op.request_id, max: op.max_tokens }]];
  },

  free({ record, ops, at, name }) {
    const kept = ops.filter((op) => op.to === "back").length;
    const shared = ops.filter((op) => (op.to ?? null) === null).length;
    return [
      [`op.free.${freeReason(record, at)}`, { name, ...blocks(ops) }],
      ["op.free.where", { kept, shared, empty: ops.length - kept - shared }],
    ];
  },

  release(group) {
    return WORDS.free(group);
  },

  preempt({ log, record, ops: [op], at, name }) {
    const values = {
      name,
      for: op.for_seq_id,
      lost: op.num_computed_tokens,
      blocks: op.num_blocks ?? 0,
      bytes: op.num_bytes ?? 0,
    };
    const lines = [[op.for_seq_id === op.seq_id ? "op.preempt.itself" : "op.preempt.for", values]];
    if (op.reason) lines.push([`op.preempt.${op.reason}`, values]);
    if (op.mode === "swap") lines.push(["op.preempt.swap", values]);
    else if (op.num_kept_tokens > 0)
      lines.push([
        "op.preempt.kept",
        { lost: op.num_computed_tokens, kept: op.num_kept_tokens, again: op.num_recompute_tokens },
      ]);
    else lines.push(["op.preempt.recompute", { again: op.num_recompute_tokens || op.num_computed_tokens }]);
    if (op.swap_refused) lines.push(["op.preempt.swap_refused", values]);
    const cost = lanesOf(log)
      .byId.get(op.seq_id)
      ?.preemptions.find((p) => p.record === record.index && p.at === at);
    if (cost?.resumed !== null && cost !== undefined)
      lines.push([
        op.mode === "swap" ? "op.preempt.back" : "op.preempt.cost",
        { record: cost.resumed + 1, steps: cost.resumed_step - cost.step, again: cost.again },
      ]);
    return lines;
  },

  discard({ name }) {
    return [["op.discard", { name }]];
  },

  swap_out({ ops, name }) {
    return [["op.swap_out", { name, ...blocks(ops), bytes: total(ops, "num_bytes") }]];
  },

  swap_in({ ops, name }) {
    return [["op.swap_in", { name, ...blocks(ops), bytes: total(ops, "num_bytes") }]];
  },

  drop({ ops, name }) {
    return [["op.drop", { name, n: ops.length }]];
  },

  finish({ ops: [op], name }) {
    return [[`op.finish.${op.reason}`, { name, detail: op.detail ?? "" }]];
  },

  rank({ ops: [op] }) {
    return [["op.rank", { request: op.request_id, returned: op.num_returned, of: op.seq_ids.length }]];
  },
};

/** What the sampler took where another token had been settled: its text where it is among the alternatives, else its id. */
export function sampledText(record, op) {
  const output = record.outputs?.find((o) => o.seq_id === op.seq_id);
  const sampled = output?.top.find((c) => c.token_id === op.sampled_token_id);
  return sampled ? labelText(loneLabel(sampled.token_bytes)) : `#${op.sampled_token_id}`;
}
