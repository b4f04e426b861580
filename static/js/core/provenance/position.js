// Provenance of a position: query → weight → key → slot → block → table → owners → decision → bytes. Pure.

import { visibleKeys } from "../attention.js";
import { endOf } from "../drafts.js";
import { groupOfLayer, RELEASED } from "../groups.js";
import { slotOf } from "../metrics.js";
import { attentionRow } from "../sequence_view.js";
import { kvHeadOf } from "../shape.js";
import { blockLinks } from "./block.js";
import { blockLink, bytesLink, goTo, slotLink, tableLink, token } from "./links.js";

/** @import {At, Chain, Link} from "./types.js" */

/** @param {At} at @param {number} seqId @param {number} position @param {number} [query] @returns {Chain | null} */
export function ofPosition(at, seqId, position, query) {
  const seq = at.state.sequences.get(seqId);
  if (!seq || position >= seq.token_ids.length) return null;
  const entry = at.log.records[at.index].batch?.find((e) => e.seq_id === seqId);
  const filled = entry ? entry.start + entry.token_ids.length : seq.num_computed_tokens;
  const last = query ?? (entry ? endOf(at.log.records[at.index], entry) - 1 : null);
  /** @type {Link[]} */
  const links = [];
  if (last !== null) links.push(...weightLinks(at, seq, last, position));
  const record = at.log.computedIn(seqId, position, at.index);
  links.push({
    kind: "key",
    fidelity: "captured",
    ...token(seq, position),
    layer: at.layer,
    kv_head: kvHead(at),
    ...goTo(record),
  });
  const tables = at.log.tablesAtCompute(at.index, seqId) ?? seq.block_tables;
  const group = groupOfLayer(at.log.groups, at.layer, seq.instance);
  const placeIn = (/** @type {number[]} */ table) =>
    position < filled ? slotOf(table, at.state.block_size, position) : null;
  const place = placeIn(tables[group]);
  if (!place) {
    const holder = tables.findIndex((table) => placeIn(table));
    if (holder >= 0 && tables[group][Math.floor(position / at.state.block_size)] === RELEASED)
      links.push(releasedLink(at, group, holder, tables[holder][Math.floor(position / at.state.block_size)]));
    else {
      const sampled = position >= seq.num_prompt_tokens && position === seq.token_ids.length - 1;
      links.push({
        kind: "nowhere",
        fidelity: "captured",
        seq: seqId,
        waits: position >= filled && seq.status !== "finished",
        sampled,
      });
    }
    return { kind: query === undefined ? "key" : "weight", links };
  }
  links.push(slotLink(at, place.block, place.offset, position));
  links.push(blockLink(at, place.block));
  links.push(tableLink(at, seqId, place.logical, place.block, seq.block_tables[group][place.logical] === place.block));
  links.push(...blockLinks(at, place.block, place.offset), bytesLink(at, 1, group));
  return { kind: query === undefined ? "key" : "weight", links };
}

/**
 * Return the link for a key that the layer's group released and another group retains.
 * @param {At} at
 * @param {number} group
 * @param {number} holder
 * @param {number} block
 * @returns {import("./types.js").LinkOf<"released">}
 */
function releasedLink({ log }, group, holder, block) {
  const { layers, window, sinks } = log.groups[group];
  return {
    kind: "released",
    fidelity: "captured",
    layers,
    window,
    sinks,
    kept: log.groups[holder].layers,
    block,
    select: { block },
  };
}

/**
 * @param {At} at @param {import("../state_access.js").Sequence} seq @param {number} query @param {number} position
 * @returns {Link[]}
 */
function weightLinks(at, seq, query, position) {
  const record = at.log.computedIn(seq.seq_id, query, at.index);
  if (record < 0) return [];
  const row = attentionRow(at.log, record, seq.seq_id, at.layer, at.head, query);
  const value = row && position >= row.keyStart ? (row.weights[position - row.keyStart] ?? null) : null;
  // a later key has no weight unless the capture contains one
  if (query < position && !value) return [];
  const unseen = !value && !visibleKeys(at.log.header, at.layer, query).includes(position);
  const rank =
    value === null || row === null
      ? null
      : 1 + row.weights.reduce((more, weight) => more + (weight > value ? 1 : 0), 0);
  return [
    { kind: "query", fidelity: "captured", ...token(seq, query), layer: at.layer, head: at.head, ...goTo(record) },
    {
      kind: "weight",
      fidelity: "captured",
      seq: seq.seq_id,
      query,
      position,
      value,
      unseen,
      rank,
      of: row?.weights.length ?? 0,
      layer: at.layer,
      head: at.head,
    },
  ];
}

/** @param {At} at */
const kvHead = ({ log, layer, head }) => kvHeadOf(log.header.model, layer, head);
