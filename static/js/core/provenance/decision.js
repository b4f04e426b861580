// Provenance of a decision: an operation of a record, its reason and its subject. Pure.

import { evictionBefore, operationsWithReasons } from "../decisions.js";
import { groupOf } from "../groups.js";
import { blockHistory, blocksOf } from "../history.js";
import { freesBlock, sequenceOf } from "../operation_kinds.js";
import { operationsOf, partsWhere } from "../operations.js";
import { blockLink, bytesLink, cachedLink, inGroup, requestLink } from "./links.js";

/** @import {Op} from "../trace.js" */
/** @import {At, Chain, Link} from "./types.js" */

/**
 * Return the links of the allocation that gave a block to its sequence: sequence, request and reason.
 * @param {At["log"]} log
 * @param {number} record
 * @param {number} at
 * @returns {Link[]}
 */
export function decisionLinks(log, record, at) {
  const ops = operationsWithReasons(log.header, log.records[record]);
  const op = ops[at];
  const seq = log.stateAt(record).sequences.get(sequenceOf(op) ?? -1);
  if (op.type !== "allocate" || !seq) return [];
  return [
    {
      kind: "decision",
      fidelity: "captured",
      ...inGroup({ log }, groupOf(log.groups, op.block_id)),
      seq: op.seq_id,
      request_id: seq.request_id,
      logical: op.logical,
      block: op.block_id,
      why: op.reason ?? "none",
      parts: partsWhere(log, record, (_, place) => place === at),
      evicted: evictionBefore(ops, at, op.block_id)?.block_hash ?? null,
      go: record,
      select: { record, op: at },
    },
  ];
}

/**
 * Return the reason of operation `place` of a record, inferred for older logs; "none" if unknown.
 * @param {At["log"]} log
 * @param {number} record
 * @param {number} place
 * @returns {string}
 */
export function reasonAt(log, record, place) {
  const op = operationsWithReasons(log.header, log.records[record])[place];
  return "reason" in op ? (op.reason ?? "none") : "none";
}

/** @param {At["log"]} log @param {number} record @param {number} place @returns {Chain | null} */
export function ofDecision(log, record, place) {
  const ops = log.records[record]?.ops ?? [];
  const op = ops[place];
  if (!op) return null;
  const at = { log, index: record, state: log.stateAt(record), layer: 0, head: 0 };
  const blockGroup = (/** @type {Op} */ one) => ("block_id" in one ? groupOf(log.groups, one.block_id) : -1);
  const group = blockGroup(op);
  const merged = ops.filter(
    // operations of one decision about several blocks
    (other) => other.type === op.type && sequenceOf(other) === sequenceOf(op) && blockGroup(other) === group,
  );
  const operation = operationsOf(log, record).findLast(
    (entry) => entry.type === op.type && entry.at <= place && (group < 0 || entry.group === group),
  );
  /** @type {Link[]} */
  const links = [
    {
      kind: "operation",
      fidelity: "captured",
      op,
      at: place,
      of: ops.length,
      entry: operation ?? null,
      blocks: merged.flatMap((other) => blocksOf(other)),
      seq: sequenceOf(op) ?? undefined,
      go: record,
    },
  ];
  const seq = at.state.sequences.get(sequenceOf(op) ?? -1);
  links.push(...decisionLinks(log, record, place));
  if (freesBlock(op)) {
    const why = reasonAt(log, record, place);
    links.push({ kind: "given", fidelity: "captured", seq: op.seq_id, type: op.type, why, go: record });
  }
  if (op.type === "evict") links.push(...evictionLinks(log, record, place, op));
  if (seq) links.push(requestLink(seq));
  for (const block of [...new Set(blocksOf(op))].slice(0, 8)) links.push(blockLink(at, block));
  links.push(bytesLink(at, at.state.block_size, group));
  return { kind: "decision", links };
}

/**
 * Return links to the allocation that took an evicted block, and to the origin of its hash.
 * @param {At["log"]} log
 * @param {number} record
 * @param {number} place
 * @param {import("../trace.js").Evict} evicted
 * @returns {Link[]}
 */
function evictionLinks(log, record, place, { block_id: block, block_hash: hash }) {
  const ops = log.records[record].ops ?? [];
  const allocation = ops.findIndex((op, i) => i > place && op.type === "allocate" && op.block_id === block);
  const links = allocation >= 0 ? decisionLinks(log, record, allocation) : [];
  for (const { op, record: cachedIn } of blockHistory(log, block, record).reverse())
    if (op.type === "cache" && equalBytes(op.block_hash, hash)) return [...links, cachedLink(op, cachedIn)];
  return links;
}

/** @param {Uint8Array} a @param {Uint8Array} b */
const equalBytes = (a, b) => a.length === b.length && a.every((byte, i) => byte === b[i]);
