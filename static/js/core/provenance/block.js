// Provenance of a block or slot: owners, writer, the decision that allocated it, and later events. Pure.

import { groupOf } from "../groups.js";
import { blockHistory, lastOf } from "../history.js";
import { instanceName } from "../instances.js";
import { freesBlock } from "../operation_kinds.js";
import { decisionLinks, reasonAt } from "./decision.js";
import { blockLink, bytesLink, cachedLink, goTo, lifeEvent, ownersOf, slotLink, tableLink, token } from "./links.js";

/** @import {Event} from "../history.js" */
/** @import {At, Chain, Link} from "./types.js" */

/** @param {At} at @param {number} block @param {number | null} offset @returns {Chain | null} */
export function ofBlock(at, block, offset) {
  if (!at.state.blocks[block]) return null;
  /** @type {Link[]} */
  const links = [];
  const isBlock = offset === null;
  if (!isBlock) links.push(slotLink(at, block, offset, null));
  links.push(blockLink(at, block));
  for (const { seq, logical } of ownersOf(at, block)) links.push(tableLink(at, seq, logical, block, true));
  links.push(
    ...blockLinks(at, block, offset),
    bytesLink(at, isBlock ? at.state.block_size : 1, groupOf(at.log.groups, block)),
  );
  return { kind: isBlock ? "block" : "slot", links };
}

/**
 * Return the links of a block: owners and their start, writer, the decision that allocated it, and later events.
 * @param {At} at
 * @param {number} block
 * @param {number | null} offset
 * @returns {Link[]}
 */
export function blockLinks(at, block, offset) {
  const events = blockHistory(at.log, block, at.index);
  const began = events.findLastIndex((e) => e.op.type === "allocate");
  const life = events.slice(Math.max(began, 0)); // since the last allocation
  /** @type {Link[]} */
  const links = [];
  const owners = ownersOf(at, block).map((owner) => ({ ...owner, ...acquired(life, owner.seq) }));
  if (owners.length)
    links.push({ kind: "owners", fidelity: "captured", owners, ref_count: at.state.blocks[block].ref_count, block });
  const origin =
    offset === null || offset >= at.state.blocks[block].token_ids.length
      ? null
      : at.log.slotOrigin(block * at.state.block_size + offset, at.index);
  const writer = origin && at.state.sequences.get(origin.seq_id);
  if (writer && origin.loaded?.medium === "instance") links.push(movedLink(at, block, origin, writer));
  else if (writer && origin.loaded)
    links.push({
      kind: "loaded",
      fidelity: "captured",
      ...token(writer, origin.position),
      medium: origin.loaded.medium,
      here: origin.loaded.here,
      ...goTo(origin.loaded.record),
    });
  if (writer && origin.loaded?.here !== false)
    links.push({
      kind: "written",
      fidelity: "captured",
      ...token(writer, origin.position),
      holds: owners.some((o) => o.seq === origin.seq_id),
      instance: instanceName(at.log.header, writer.instance),
      copied: origin.at !== (origin.loaded ?? origin).record,
      ...goTo(origin.record),
    });
  if (began >= 0) links.push(...decisionLinks(at.log, events[began].record, events[began].at));
  const cached = lastOf(life, "cache");
  if (cached && at.state.blocks[block].block_hash) links.push(cachedLink(cached.op, cached.record));
  links.push(...eventLinks(at, block, events, began));
  links.push({ kind: "life", fidelity: "captured", events: events.map(lifeEvent) });
  return links;
}

/**
 * Return the link for a block's content received from another instance.
 * @param {At} at
 * @param {number} block
 * @param {import("../slot_origins.js").Arrival} origin
 * @param {import("../state_access.js").Sequence} writer
 * @returns {Link}
 */
function movedLink({ log }, block, origin, writer) {
  const { record, from = null } = /** @type {import("../slot_origins.js").Loaded} */ (origin.loaded);
  const ops = log.records[record].ops ?? [];
  const [received] = ops.flatMap((op) => (op.type === "receive" && op.block_id === block ? [op] : []));
  const [arrival] = ops.flatMap((op) => (op.type === "arrive" && op.seq_id === received?.seq_id ? [op] : []));
  return {
    kind: "moved",
    fidelity: "captured",
    ...token(writer, origin.position),
    bytes: received?.num_bytes ?? 0,
    link: arrival?.link ?? "",
    seconds: arrival ? arrival.ended - arrival.began : 0,
    src: from,
    from: from === null ? "" : instanceName(log.header, writer.instance),
    to: instanceName(log.header, log.records[record].instance ?? 0),
    ...goTo(record),
    ...(from === null ? {} : { select: { block: from } }),
  };
}

/** Return the operation by which a sequence got the block. @param {Event[]} life @param {number} seq */
function acquired(life, seq) {
  const event = life.findLast(
    ({ op }) => (op.type === "allocate" || op.type === "share" || op.type === "fork") && op.seq_id === seq,
  );
  return event ? { how: event.op.type, go: event.record, at: event.at } : {};
}

/**
 * Return the links for the block's last free, last eviction and previous owner.
 * @param {At} at
 * @param {number} block
 * @param {Event[]} events
 * @param {number} began
 * @returns {Link[]}
 */
function eventLinks(at, block, events, began) {
  /** @type {Link[]} */
  const links = [];
  const held = at.state.blocks[block].ref_count > 0;
  const freed = events.findLast((e) => freesBlock(e.op));
  if (!held && freed && freesBlock(freed.op))
    links.push({
      kind: "freed",
      fidelity: "captured",
      seq: freed.op.seq_id,
      to: freed.op.to,
      type: freed.op.type,
      why: reasonAt(at.log, freed.record, freed.at),
      ...goTo(freed.record),
      select: { record: freed.record, op: freed.at },
    });
  const evicted = lastOf(events, "evict");
  if (evicted)
    links.push({
      kind: "evicted",
      fidelity: "captured",
      hash: evicted.op.block_hash,
      block,
      ...goTo(evicted.record),
      select: { record: evicted.record, op: evicted.at },
    });
  const before = began > 0 ? lastOf(events.slice(0, began), "allocate") : undefined;
  if (before)
    links.push({ kind: "earlier", fidelity: "captured", seq: before.op.seq_id, block, ...goTo(before.record) });
  return links;
}
