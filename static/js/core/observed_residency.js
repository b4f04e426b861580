// Residency of a monitored server's contents, with start and end records; an incremental fold over the records. Pure.

import { contentsOf, hashKey } from "./cached_contents.js";
import { folding } from "./folds.js";
import { numRanks, placeKey } from "./observed_ranks.js";

/** @import {Contents} from "./cached_contents.js" */
/** @import {StepRecord, Stored} from "./trace.js" */

/**
 * @typedef {{hash: string, group: Group, medium: string, from: number, to: number}} Residency `to`: the record that
 * ended it, Infinity: none
 * @typedef {object} Group of layers whose blocks are cached together
 * @property {number} id 0: not reported, or the first
 * @property {string | null} kind as reported by the server
 * @property {number | null} window tokens
 * @property {number} size tokens of one of its contents; 0: not reported
 * @typedef {{index: number, count: number}} Count cumulative up to that record
 * @typedef {{index: number, hash: string, salt: string | null, tokens: number[]}} Root content that begins a sequence
 * @typedef {object} Residencies of one rank
 * @property {Map<string, Residency[]>} byHash residencies of each content, ascending
 * @property {Map<number, Group>} groups of the GPU
 * @property {Root[]} roots without duplicates
 * @property {Count[]} stored contents stored on the GPU
 * @property {Count[]} restored of `stored`, contents that had been stored before
 * @property {{index: number, n: number, most: number}[]} again contents reported again while resident: cumulative,
 * `most`: largest end in tokens
 * @property {Map<number, Count[]>} lacking by group: contents of `again` that it lacked
 */

const GPU = "GPU";

/** @returns {Residencies & {open: Map<string, Residency>}} */
const empty = () => ({
  byHash: new Map(),
  groups: new Map(),
  roots: [],
  stored: [],
  restored: [],
  again: [],
  lacking: new Map(),
  open: new Map(),
});

/** Return the residencies of each rank, up to the log's end. */
export const residenciesOf = folding(
  (/** @type {import("./log.js").TraceLog} */ { header }) => Array.from({ length: numRanks(header) }, empty),
  (ranks, record, _, log) => append(ranks[record.instance ?? 0], contentsOf(log), record),
);

/** @param {ReturnType<typeof empty>} rank @param {Contents} contents @param {StepRecord} record */
function append(rank, contents, { index, ops = [] }) {
  for (const op of ops) {
    if (op.type === "stored") {
      const group = groupOf(rank, op);
      if (op.again) countRepeat(rank, contents, op, group, index);
      else addResidency(rank, op, group, index);
    } else if (op.type === "removed" && !op.num_left) endResidency(rank, placeKey(op), index);
    else if (op.type === "known_since") for (const place of [...rank.open.keys()]) endResidency(rank, place, index);
  }
}

/** @param {Residencies} rank @param {Stored} op */
function groupOf({ groups }, { group: id, medium, kind = null, window = null, token_ids: tokens }) {
  const key = id ?? 0;
  let group = groups.get(key);
  if (!group) {
    group = { id: key, kind, window, size: 0 };
    if ((medium || GPU) === GPU) groups.set(key, group); // contents outside the GPU may lack a group
  }
  group.kind ??= kind;
  group.window ??= window;
  group.size ||= tokens.length;
  return group;
}

/** @param {ReturnType<typeof empty>} rank @param {Stored} op @param {Group} group @param {number} index */
function addResidency(rank, op, group, index) {
  const hash = hashKey(op.block_hash);
  const residency = { hash, group, medium: op.medium || GPU, from: index, to: Number.POSITIVE_INFINITY };
  const before = rank.byHash.get(hash);
  if (residency.medium === GPU) {
    add(rank.stored, index);
    if (before?.some((one) => one.group === group && one.medium === GPU)) add(rank.restored, index);
  }
  if (!before && op.parent_hash === null && !op.parent_unsaid && op.token_ids.length)
    rank.roots.push({ index, hash, salt: op.extra_keys ?? null, tokens: op.token_ids });
  if (before) before.push(residency);
  else rank.byHash.set(hash, [residency]);
  rank.open.set(placeKey(op), residency);
}

/**
 * Count a content reported again while resident: it was recomputed because a group lacked it.
 * @param {Residencies} rank
 * @param {Contents} contents
 * @param {Stored} op
 * @param {Group} group
 * @param {number} index
 */
function countRepeat(rank, contents, op, group, index) {
  if ((op.medium || GPU) !== GPU) return;
  const hash = hashKey(op.block_hash);
  const resident = new Set(
    (rank.byHash.get(hash) ?? [])
      .filter((one) => one.medium === GPU && one.from < index && one.to > index)
      .map((one) => one.group.id),
  );
  if (!resident.has(group.id)) return; // reported twice in one message: computed twice concurrently
  const content = contents.byHash.get(hash);
  const end = content ? (content.logical + 1) * content.tokens.length : 0;
  const last = rank.again.at(-1);
  const sum = { index, n: (last?.n ?? 0) + 1, most: Math.max(last?.most ?? 0, end) };
  if (last?.index === index) rank.again[rank.again.length - 1] = sum;
  else rank.again.push(sum);
  for (const id of rank.groups.keys()) {
    if (resident.has(id)) continue;
    let counts = rank.lacking.get(id);
    if (!counts) rank.lacking.set(id, (counts = []));
    add(counts, index);
  }
}

/** @param {ReturnType<typeof empty>} rank @param {string} place @param {number} index */
function endResidency(rank, place, index) {
  const residency = rank.open.get(place);
  if (residency) residency.to = index;
  rank.open.delete(place);
}

/** @param {Count[]} counts @param {number} index */
function add(counts, index) {
  const last = counts.at(-1);
  if (last?.index === index) last.count += 1;
  else counts.push({ index, count: (last?.count ?? 0) + 1 });
}

/**
 * Return the residency of a content after record `index`: groups that have it on the GPU, groups that ever had it
 * there, and media outside.
 * @param {Residencies} rank
 * @param {string} hash
 * @param {number} index
 * @returns {{groups: number[], ever: number[], media: string[]}}
 */
export function residencyAt(rank, hash, index) {
  const all = rank.byHash.get(hash) ?? [];
  const now = all.filter(({ from, to }) => from <= index && to > index);
  const groupsOf = (/** @type {Residency[]} */ residencies) =>
    [...new Set(residencies.filter(({ medium }) => medium === GPU).map(({ group }) => group.id))].sort((a, b) => a - b);
  const media = new Set(now.filter(({ medium }) => medium !== GPU).map(({ medium }) => medium));
  return { groups: groupsOf(now), ever: groupsOf(all), media: [...media].sort() };
}
