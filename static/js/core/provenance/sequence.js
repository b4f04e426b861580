// Provenance of a sequence: request, lookup, blocks and their bytes, and its status changes. Pure.

import { heldBy, heldIn } from "../groups.js";
import { lastOf, sequenceHistory } from "../history.js";
import { ownGroups } from "../instances.js";
import { kindOf } from "../operation_kinds.js";
import { partsWhere } from "../operations.js";
import { bytesLink, goTo, inGroup, lifeEvent, requestLink } from "./links.js";

/** @import {Lookup} from "../trace.js" */
/** @import {At, Chain, Link} from "./types.js" */

/** @param {At} at @param {number} id @returns {Chain | null} */
export function ofSequence(at, id) {
  const seq = at.state.sequences.get(id);
  if (!seq) return null;
  /** @type {Link[]} */
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
  const lookup = lastOf(events, "lookup");
  if (lookup)
    links.push({
      kind: "lookup",
      fidelity: "captured",
      ...withoutType(lookup.op),
      ...goTo(lookup.record),
      select: { record: lookup.record, op: lookup.at },
    });
  const outside = lastOf(events, "lookup_external");
  if (outside)
    links.push({
      kind: "outside",
      fidelity: "captured",
      parts: partsWhere(at.log, outside.record, (_, place) => place === outside.at),
      verdict: outside.op.verdict,
      ...goTo(outside.record),
      select: { record: outside.record, op: outside.at },
    });
  const shared = heldBy(seq).filter((block) => at.state.blocks[block].ref_count > 1);
  for (const group of ownGroups(at.log.groups, seq.instance)) {
    const table = seq.block_tables[group];
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
  }
  links.push({
    kind: "life",
    fidelity: "captured",
    events: events.filter((e) => kindOf(e.op.type).turn).map(lifeEvent),
  });
  return { kind: "sequence", links };
}

/** @param {Lookup & {type: "lookup"}} op @returns {Lookup} */
const withoutType = ({ type, ...fields }) => fields;
