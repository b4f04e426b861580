// Provenance of a byte figure: its slots in each block group and each sequence's share. Pure.

import { counterfactual } from "../counterfactual.js";
import { figuresByGroup, groupOf, heldIn, isOfStates } from "../groups.js";
import { memoryFigures } from "../state.js";
import { bytesLink, inGroup } from "./links.js";

/** @import {Block} from "../state_access.js" */
/** @import {At, Chain, FigureName, Link} from "./types.js" */

/** @typedef {Exclude<FigureName, "contiguous" | "token">} Counted */

const FIGURES = new Set(["used", "held", "waste", "cached", "free", "contiguous", "token"]);

/** @param {At} at @param {FigureName} name @returns {Chain | null} */
export function ofFigure(at, name) {
  if (!FIGURES.has(name)) return null;
  const { header } = at.log;
  const perToken = header.kv_bytes_per_token;
  if (name === "token") return { kind: "figure", links: [bytesLink(at, 1)] };
  if (name === "contiguous") {
    const other = counterfactual(header, at.state);
    if (!other) return null;
    return {
      kind: "figure",
      links: [
        { kind: "contiguous", fidelity: "derived", ...other, per_token: perToken, groups: at.log.groups.length },
        bytesLink(at, 1),
      ],
    };
  }
  const m = memoryFigures(at.state);
  const size = m.block_size;
  const terms = slotsByGroup(at, name);
  const slots = terms.reduce((total, term) => total + (term.of_states ? 0 : term.slots), 0);
  const isMember = (/** @type {Block} */ block) =>
    MEMBERS[name](block, size) && !(name === "waste" && isOfStates(groupWith(at, block.block_id)));
  const members = at.state.blocks.filter(isMember).map((b) => b.block_id);
  /** @type {Link[]} */
  const links = [
    {
      kind: "figure",
      fidelity: "derived",
      name,
      slots,
      per_token: perToken,
      bytes: terms.reduce((total, term) => total + term.bytes, 0),
      terms,
      ...m,
      blocks: members,
    },
  ];
  if (name === "used" || name === "held" || name === "waste") links.push(...parts(at, name));
  links.push(bytesLink(at, 1));
  return { kind: "figure", links };
}

/** @param {At} at @param {number} block */
const groupWith = (at, block) => at.log.groups[groupOf(at.log.groups, block)];

/**
 * Return the slots that a figure counts in each block group: [{slots, per_token, bytes, layers, of_states}]. For groups
 * with states, `slots` is their number and `per_token` the bytes of one.
 * @param {At} at
 * @param {Counted} name
 */
function slotsByGroup(at, name) {
  const size = at.state.block_size;
  return figuresByGroup(at.state).map(({ blocks_held: held, blocks_cached: cached, tokens_held: tokens }, group) => {
    const { num_blocks, layers, state_bytes, kv_bytes_per_token } = at.log.groups[group];
    const of_states = state_bytes > 0;
    const [each, per_token] = of_states ? [1, state_bytes] : [size, kv_bytes_per_token];
    const used = of_states ? held : tokens;
    const slots = {
      used,
      held: held * each,
      waste: held * each - used,
      cached: cached * each,
      free: (num_blocks - held - cached) * each,
    }[name];
    return { slots, per_token, bytes: slots * per_token, layers, of_states };
  });
}

/** @type {Record<Counted, (b: Block, size: number) => boolean>} */
const MEMBERS = {
  used: (b) => b.ref_count > 0,
  held: (b) => b.ref_count > 0,
  waste: (b, size) => b.ref_count > 0 && b.token_ids.length < size,
  cached: (b) => b.ref_count === 0 && b.block_hash !== null,
  free: (b) => b.ref_count === 0 && b.block_hash === null,
};

/**
 * Return each sequence's share in each block group; a shared block counts for the first sequence that holds it, so that
 * the shares add up.
 * @param {At} at
 * @param {Counted} name
 * @returns {Link[]}
 */
function parts(at, name) {
  /** @type {Set<number>} */
  const counted = new Set();
  const size = at.state.block_size;
  /** @type {Link[]} */
  const links = [];
  for (const seq of at.state.sequences.values())
    seq.block_tables.forEach((table, group) => {
      const own = heldIn(table).filter((block) => !counted.has(block));
      own.forEach((block) => counted.add(block));
      if (!own.length) return;
      const { kv_bytes_per_token, state_bytes } = at.log.groups[group];
      const of_states = state_bytes > 0;
      const [each, perToken] = of_states ? [1, state_bytes] : [size, kv_bytes_per_token];
      const filled = of_states ? own.length : own.reduce((sum, id) => sum + at.state.blocks[id].token_ids.length, 0);
      const slots = name === "used" ? filled : name === "held" ? own.length * each : own.length * each - filled;
      links.push({
        kind: "part",
        fidelity: "derived",
        ...inGroup(at, group),
        seq: seq.seq_id,
        slots,
        per_token: perToken,
        bytes: slots * perToken,
        num_blocks: own.length,
        of_states,
        select: { seq: seq.seq_id },
      });
    });
  return links;
}
