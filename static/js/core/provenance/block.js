// A block or a slot: who holds it and since when, who wrote it, which decision took it, what became of it. Pure.

import { groupOf } from "../groups.js";
import { blockHistory } from "../history.js";
import { givesBack } from "../operation_kinds.js";
import { decisionLink, reasonAt } from "./decision.js";
import { blockLink, bytesLink, goTo, ownersOf, slotLink, tableLink, token } from "./links.js";

export function ofBlock(at, block, offset) {
  if (!at.state.blocks[block]) return null;
  const links = [];
  const whole = offset === null;
  if (!whole) links.push(slotLink(at, block, offset, null));
  links.push(blockLink(at, block));
  for (const { seq, logical } of ownersOf(at, block)) links.push(tableLink(at, seq, logical, block, true));
  links.push(
    ...blockLinks(at, block, offset),
    bytesLink(at, whole ? at.state.block_size : 1, groupOf(at.log.groups, block)),
  );
  return { kind: whole ? "block" : "slot", links };
}

/** What the log tells of a block: who holds it and since when, who wrote it, which decision took it, what became of it. */
export function blockLinks(at, block, offset) {
  const events = blockHistory(at.log, block, at.index);
  const began = events.findLastIndex((e) => e.op.type === "allocate");
  const life = events.slice(Math.max(began, 0)); // since the last allocation
  const links = [];
  const owners = ownersOf(at, block).map((owner) => ({ ...owner, ...joined(life, owner.seq) }));
  if (owners.length)
    links.push({ kind: "owners", fidelity: "captured", owners, ref_count: at.state.blocks[block].ref_count, block });
  const origin =
    offset === null || offset >= at.state.blocks[block].token_ids.length
      ? null
      : at.log.slotOrigin(block * at.state.block_size + offset, at.index);
  if (origin) {
    const writer = at.state.sequences.get(origin.seq_id);
    links.push({
      kind: "written",
      fidelity: "captured",
      ...token(writer, origin.position),
      holds: owners.some((o) => o.seq === origin.seq_id),
      copied: origin.at !== origin.record,
      ...goTo(origin.record),
    });
  }
  if (began >= 0) links.push(decisionLink(at.log, events[began].record, events[began].at));
  const cached = life.findLast((e) => e.op.type === "cache");
  if (cached && at.state.blocks[block].block_hash)
    links.push({
      kind: "cached",
      fidelity: "captured",
      hash: cached.op.block_hash,
      parent: cached.op.parent_hash,
      seq: cached.op.seq_id,
      ...goTo(cached.record),
    });
  links.push(...fateLinks(at, block, events, began));
  links.push({
    kind: "life",
    fidelity: "captured",
    events: events.map(({ record, at: place, op, from, to }) => ({
      record,
      at: place,
      type: op.type,
      seq: op.seq_id,
      from,
      to,
    })),
  });
  return links;
}

/** How a sequence came to hold the block: {how, go}. */
function joined(life, seq) {
  const event = life.findLast((e) => e.op.seq_id === seq && ["allocate", "share", "fork"].includes(e.op.type));
  return event ? { how: event.op.type, go: event.record, at: event.at } : {};
}

/** Freed, evicted, or held by others before: what happened around the life that the block has now. */
function fateLinks(at, block, events, began) {
  const links = [];
  const held = at.state.blocks[block].ref_count > 0;
  const freed = events.findLast((e) => givesBack(e.op));
  if (!held && freed)
    links.push({
      kind: "freed",
      fidelity: "captured",
      seq: freed.op.seq_id,
      to: freed.op.to ?? null,
      type: freed.op.type,
      why: reasonAt(at.log, freed.record, freed.at),
      ...goTo(freed.record),
      select: { record: freed.record, op: freed.at },
    });
  const evicted = events.findLast((e) => e.op.type === "evict");
  if (evicted)
    links.push({
      kind: "evicted",
      fidelity: "captured",
      hash: evicted.op.block_hash,
      block,
      ...goTo(evicted.record),
      select: { record: evicted.record, op: evicted.at },
    });
  const before = began > 0 ? events.slice(0, began).findLast((e) => e.op.type === "allocate") : null;
  if (before)
    links.push({ kind: "earlier", fidelity: "captured", seq: before.op.seq_id, block, ...goTo(before.record) });
  return links;
}
