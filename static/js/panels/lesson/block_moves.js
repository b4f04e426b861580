// The learner's list of operations, and the block tables and free queue after it. The server decides whether the
// operations are legal. Pure.

/** @import {BlockMove} from "../../core/wire.js" */
/** @import {State} from "../../state/store.js" */

/**
 * @typedef {BlockMove["kind"]} Kind
 * @typedef {number | "queue"} From id of the sequence whose table has the block, or the free queue
 * @typedef {{block: number, from: From}} Held the block being moved
 * @typedef {{kind: "queue"} | {kind: "table", seq: number, block: number | null} | {kind: "tool", tool: Kind}} Target
 *   drop target; `block` is the table's block under the pointer, if any
 * @typedef {{
 *   queue: number[], tables: Map<number, number[]>, refs: number[], hashed: boolean[], filled: number[],
 * }} Draft
 */

/** @type {Kind[]} */
export const TOOLS = ["allocate", "share", "copy", "free", "evict"];

/** Apply a list of operations to `state`. @param {State} state @param {BlockMove[]} moves @returns {Draft} */
export function applyMoves(state, moves) {
  /** @type {Draft} */
  const draft = {
    queue: [...state.free_queues[0]],
    tables: new Map(
      [...state.sequences.values()]
        .filter(({ status }) => status !== "finished")
        .map((seq) => [seq.seq_id, [...(seq.block_tables[0] ?? [])]]),
    ),
    refs: state.blocks.map((block) => block.ref_count),
    hashed: state.blocks.map((block) => block.block_hash !== null),
    filled: state.blocks.map((block) => block.token_ids.length),
  };
  for (const move of moves) applyMove(draft, move);
  return draft;
}

/** @param {Draft} draft @param {BlockMove} move */
function applyMove(draft, { kind, block, seq, source }) {
  const { refs, hashed, filled } = draft;
  const table = draft.tables.get(seq ?? -1) ?? [];
  const removeFromQueue = () => (draft.queue = draft.queue.filter((id) => id !== block));
  switch (kind) {
    case "allocate":
      removeFromQueue();
      refs[block] += 1;
      filled[block] = 0;
      table.push(block);
      break;
    case "share":
      removeFromQueue();
      refs[block] += 1;
      table.push(block);
      break;
    case "copy": {
      removeFromQueue();
      refs[block] += 1;
      if (source === null) break;
      refs[source] -= 1;
      filled[block] = filled[source];
      const at = table.indexOf(source);
      if (at >= 0) table[at] = block;
      break;
    }
    case "free":
      table.splice(table.lastIndexOf(block), 1);
      refs[block] -= 1;
      if (refs[block] === 0) draft.queue.splice(hashed[block] ? draft.queue.length : 0, 0, block);
      break;
    case "evict":
      hashed[block] = false;
      filled[block] = 0;
  }
}

/**
 * Return the operation for dropping a block on a target with a tool, or null if there is none.
 * @param {Kind} tool @param {Held} held @param {Target} target
 * @returns {BlockMove | null}
 */
export function moveOf(tool, { block, from }, target) {
  const move = { block, seq: null, source: null };
  if (target.kind === "tool") {
    if (target.tool === "evict") return { ...move, kind: "evict" };
    return target.tool === "free" && from !== "queue" ? { ...move, kind: "free", seq: from } : null;
  }
  if (target.kind === "queue") return from === "queue" ? null : { ...move, kind: "free", seq: from };
  if (target.seq === from) return null;
  if (tool === "copy" && from === "queue" && target.block !== null)
    return { ...move, kind: "copy", seq: target.seq, source: target.block };
  const kind = from !== "queue" || tool === "share" ? "share" : "allocate";
  return { ...move, kind, seq: target.seq };
}

/**
 * Return the result of tapping a block: an operation, or the block to hold.
 * @param {Kind} tool @param {Held | null} held @param {Held} one
 * @returns {BlockMove | Held | null}
 */
export function tapResult(tool, held, one) {
  if (tool === "evict") return moveOf(tool, one, { kind: "tool", tool });
  if (tool === "free") return moveOf(tool, one, { kind: "queue" });
  if (tool === "copy" && held && (held.from === "queue") !== (one.from === "queue")) {
    const [free, source] = held.from === "queue" ? [held, one] : [one, held];
    if (source.from !== "queue") return moveOf(tool, free, { kind: "table", seq: source.from, block: source.block });
  }
  return held?.block === one.block && held.from === one.from ? null : one;
}
