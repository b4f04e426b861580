// A sequence: its request, its lookup, its blocks and their bytes, the turns of its life. Pure.

import { heldBy, heldIn } from "../groups.js";
import { sequenceHistory } from "../history.js";
import { kindOf } from "../operation_kinds.js";
import { bytesLink, goTo, inGroup, requestLink } from "./links.js";

export function ofSequence(at, id) {
  const seq = at.state.sequences.get(id);
  if (!seq) return null;
  const links = [
    {
      kind: "sequence",
      fidelity: "captured",
      seq: id,
      status: seq.status,
      num_tokens: seq.token_ids.length,
      num_computed_tokens: seq.num_computed_tokens,
    },
    requestLink(seq),
  ];
  const events = sequenceHistory(at.log, id, at.index);
  const lookup = events.findLast((e) => e.op.type === "lookup" && e.op.seq_id === id);
  if (lookup)
    links.push({
      kind: "lookup",
      fidelity: "captured",
      ...lookup.op,
      ...goTo(lookup.record),
      select: { record: lookup.record, op: lookup.at },
    });
  const shared = heldBy(seq).filter((block) => at.state.blocks[block].ref_count > 1);
  seq.block_tables.forEach((table, group) => {
    const held = heldIn(table);
    links.push({
      kind: "blocks",
      fidelity: "captured",
      ...inGroup(at, group),
      seq: id,
      blocks: held,
      shared: shared.filter((block) => held.includes(block)),
    });
    links.push(bytesLink(at, held.length * at.state.block_size, group));
  });
  links.push({
    kind: "life",
    fidelity: "captured",
    events: events
      .filter((e) => kindOf(e.op.type).turn)
      .map(({ record, at: place, op }) => ({ record, at: place, type: op.type, seq: op.seq_id })),
  });
  return { kind: "sequence", links };
}
