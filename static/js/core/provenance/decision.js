// A decision: an operation of a record, why it was made and what it was about. Pure.

import { evictionBefore, operationsWithReasons } from "../decisions.js";
import { groupOf } from "../groups.js";
import { blockHistory, blocksOf } from "../history.js";
import { givesBack } from "../operation_kinds.js";
import { operationsOf, partsWhere } from "../operations.js";
import { blockLink, bytesLink, goTo, inGroup, requestLink } from "./links.js";

/** The allocation that gave a block to its sequence: who asked, for which request, and why. */
export function decisionLink(log, record, at) {
  const ops = operationsWithReasons(log.header, log.records[record]);
  const op = ops[at];
  const seq = log.stateAt(record).sequences.get(op.seq_id);
  return {
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
  };
}

/** The reason that the operation at `place` of a record says, or that stands beside it in an older log; "none" if neither. */
export const reasonAt = (log, record, place) =>
  operationsWithReasons(log.header, log.records[record])[place].reason ?? "none";

export function ofDecision(log, record, place) {
  const op = log.records[record]?.ops?.[place];
  if (!op) return null;
  const at = { log, index: record, state: log.stateAt(record) };
  const ops = log.records[record].ops;
  const group = op.block_id === undefined ? -1 : groupOf(log.groups, op.block_id);
  const inSame = (other) => group < 0 || groupOf(log.groups, other.block_id) === group;
  const alike = ops.filter((other) => other.type === op.type && other.seq_id === op.seq_id && inSame(other)); // one decision, block by block
  const told = operationsOf(log, record).findLast(
    (entry) => entry.type === op.type && entry.at <= place && (group < 0 || entry.group === group),
  );
  const links = [
    {
      kind: "operation",
      fidelity: "captured",
      op,
      at: place,
      of: ops.length,
      told: told ?? null,
      blocks: alike.flatMap((other) => blocksOf(other)),
      seq: op.seq_id,
      go: record,
    },
  ];
  const seq = at.state.sequences.get(op.seq_id);
  if (op.type === "allocate") links.push(decisionLink(log, record, place));
  if (givesBack(op))
    links.push({
      kind: "given",
      fidelity: "captured",
      seq: op.seq_id,
      type: op.type,
      why: reasonAt(log, record, place),
      go: record,
    });
  if (op.type === "evict") {
    const taken = log.records[record].ops.findIndex(
      (o, i) => i > place && o.type === "allocate" && o.block_id === op.block_id,
    );
    if (taken >= 0) links.push(decisionLink(log, record, taken));
    const cached = blockHistory(log, op.block_id, record).findLast(
      (e) => e.op.type === "cache" && same(e.op.block_hash, op.block_hash),
    );
    if (cached)
      links.push({
        kind: "cached",
        fidelity: "captured",
        hash: op.block_hash,
        parent: cached.op.parent_hash,
        seq: cached.op.seq_id,
        ...goTo(cached.record),
      });
  }
  if (seq) links.push(requestLink(seq));
  for (const block of [...new Set(blocksOf(op))].slice(0, 8)) links.push(blockLink(at, block));
  links.push(bytesLink(at, at.state.block_size, group));
  return { kind: "decision", links };
}

const same = (a, b) => a.length === b.length && a.every((byte, i) => byte === b[i]);
