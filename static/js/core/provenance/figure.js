// A byte figure: the slots that it counts in each block group, and what each sequence contributes. Pure.

import { counterfactual } from "../counterfactual.js";
import { bytesOfBlock, figuresByGroup, heldIn, isOfStates } from "../groups.js";
import { memoryFigures } from "../state.js";
import { bytesLink, inGroup } from "./links.js";

/** @typedef {import("./types.js").At} At */
/** @typedef {import("./types.js").Link} Link */
/** @typedef {import("./types.js").Chain} Chain */

/** @typedef {Exclude<import("./types.js").FigureName, "contiguous" | "token">} Counted */

const FIGURES = new Set(["used", "held", "waste", "cached", "free", "contiguous", "token"]);

/** @param {At} at @param {import("./types.js").FigureName} name @returns {Chain | null} */
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
  const sum = (/** @type {"slots" | "bytes"} */ field) => terms.reduce((total, term) => total + term[field], 0);
  const chosen = at.state.blocks.filter((b) => MEMBERS[name](b, size)).map((b) => b.block_id);
  /** @type {Link[]} */
  const links = [
    {
      kind: "figure",
      fidelity: "derived",
      name,
      slots: sum("slots"),
      per_token: perToken,
      bytes: sum("bytes"),
      terms,
      ...m,
      blocks: chosen,
    },
  ];
  if (name === "used" || name === "held" || name === "waste") links.push(...parts(at, name));
  links.push(bytesLink(at, 1));
  return { kind: "figure", links };
}

/**
 * The slots that a figure counts in each block group: [{slots, per_token, bytes, layers}].
 * @param {At} at @param {Counted} name
 */
function slotsByGroup(at, name) {
  const size = at.state.block_size;
  return figuresByGroup(at.state).map(({ blocks_held: held, blocks_cached: cached, tokens_held: tokens }, group) => {
    const of = at.log.groups[group];
    const { num_blocks, layers } = of;
    const [per_token, used] = [bytesOfBlock(of, size) / size, isOfStates(of) ? held * size : tokens];
    const slots = {
      used,
      held: held * size,
      waste: held * size - used,
      cached: cached * size,
      free: (num_blocks - held - cached) * size,
    }[name];
    return { slots, per_token, bytes: slots * per_token, layers };
  });
}

/** @type {Record<Counted, (b: import("../state.js").Block, size: number) => boolean>} */
const MEMBERS = {
  used: (b) => b.ref_count > 0,
  held: (b) => b.ref_count > 0,
  waste: (b, size) => b.ref_count > 0 && b.token_ids.length < size,
  cached: (b) => b.ref_count === 0 && b.block_hash !== null,
  free: (b) => b.ref_count === 0 && b.block_hash === null,
};

/**
 * What each sequence contributes in each block group; a shared block is counted with the first sequence that holds it,
 * so that the parts add up.
 * @param {At} at @param {Counted} name @returns {Link[]}
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
      const filled = own.reduce((sum, block) => sum + at.state.blocks[block].token_ids.length, 0);
      const slots = name === "used" ? filled : name === "held" ? own.length * size : own.length * size - filled;
      const { kv_bytes_per_token: perToken } = at.log.groups[group];
      links.push({
        kind: "part",
        fidelity: "derived",
        ...inGroup(at, group),
        seq: seq.seq_id,
        slots,
        per_token: perToken,
        bytes: slots * perToken,
        num_blocks: own.length,
        select: { seq: seq.seq_id },
      });
    });
  return links;
}
