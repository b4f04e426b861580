// What a row of the prefix tree says: its tokens as text, its blocks, who holds them, when nobody did any more.

import { ownersByBlock } from "../../core/groups.js";
import { blockHistory } from "../../core/history.js";
import { labelsText, tokenLabels } from "../../core/labels.js";
import { log } from "../../state/store.js";
import { hashText } from "../../tell/operations.js";
import { grouped, t } from "../../tell/words.js";

/** Whether the log has neither texts nor token ids: only counts, blocks and times. */
export const isPrivate = () => log.value?.header.engine.private === true;

const FEW = 3; // runs of block ids that are named
const MAX_TEXT = 160; // tokens of a row whose text is made: more are not seen

/**
 * @typedef {import("../../core/prefix_branches.js").Row} Row
 * @typedef {import("../../core/prefix_tree.js").Node} Node
 * @typedef {import("../../state/store.js").State} State
 * @typedef {import("../../state/store.js").TraceLog} TraceLog
 * @typedef {{text: string, prompt: boolean}} Piece of text; `prompt`: of a prompt, else chosen by the model
 */

/**
 * The tokens of the first contents of a row as text, cut where prompt becomes output.
 *
 * @param {State} state
 * @param {Node[]} nodes
 * @returns {Piece[]}
 */
export function piecesOf(state, nodes) {
  const size = state.block_size;
  if (isPrivate()) {
    const from = nodes[0].content.logical * size;
    return [{ text: t("prefix.positions", { from, to: from + nodes.length * size - 1 }), prompt: true }];
  }
  const few = nodes.slice(0, Math.ceil(MAX_TEXT / size));
  /** @type {{labels: import("../../core/labels.js").Label[], prompt: boolean}[]} */
  const runs = [];
  for (const { content } of few) {
    const sequence = state.sequences.get(content.seq);
    if (!sequence) continue; // its content came with the records after this state
    const labels = tokenLabels(sequence.token_bytes);
    for (let at = content.logical * size; at < (content.logical + 1) * size; at++) {
      const prompt = at < sequence.num_prompt_tokens;
      const last = runs[runs.length - 1];
      if (last?.prompt === prompt) last.labels.push(labels[at]);
      else runs.push({ labels: [labels[at]], prompt });
    }
  }
  return runs.map(({ labels, prompt }) => ({ text: spaced(labelsText(labels.filter(Boolean))), prompt }));
}

/** Between words a space is one; where a text begins or ends it is marked. @param {string} text */
const spaced = (text) => text.replace(/(?<=[^␣])␣(?=[^␣])/g, " ");

/** @param {Node[]} nodes */
export const blockIds = (nodes) => nodes.flatMap(({ blocks }) => blocks.map((block) => block.block_id));

/** Block ids written short: `0–6 9 12 …`. @param {Node[]} nodes */
export function idsText(nodes) {
  /** @type {[number, number][]} */
  const runs = [];
  for (const id of blockIds(nodes)) {
    const last = runs[runs.length - 1];
    if (last && id === last[1] + 1) last[1] = id;
    else runs.push([id, id]);
  }
  const few = runs.slice(0, FEW).map(([from, to]) => (from === to ? String(from) : `${from}–${to}`));
  return runs.length ? few.join(" ") + (runs.length > FEW ? " …" : "") : "–";
}

/** The sequences that hold a row's blocks. @param {State} state @param {Node[]} nodes */
export function ownersIn(state, nodes) {
  const owners = ownersByBlock(state);
  return [...new Set(blockIds(nodes).flatMap((id) => owners.get(id) ?? []))].sort((a, b) => a - b);
}

/** The most that one of a row's blocks was hit since it was computed. @param {Node[]} nodes */
export const hitsOf = (nodes) => Math.max(0, ...nodes.flatMap(({ blocks }) => blocks.map((block) => block.num_hits)));

/**
 * The last record that held one of the row's blocks, which nobody holds now; -1: none did.
 *
 * @param {TraceLog} now
 * @param {State} state
 * @param {Node[]} nodes
 */
export function heldUntil(now, state, nodes) {
  const left = blockIds(nodes).map(
    (id) => blockHistory(now, id, state.index).findLast(({ op }) => "to" in op && op.to !== null)?.record ?? -1,
  );
  return Math.max(-1, ...left);
}

/**
 * How many blocks are taken before the first one of a row is: its place in the free queue, from 1 on; null: somebody
 * holds it.
 *
 * @param {State} state
 * @param {Node[]} nodes
 */
export function nextOut(state, nodes) {
  const ids = new Set(blockIds(nodes));
  const places = state.free_queues.map((queue) => queue.findIndex((id) => ids.has(id))).filter((place) => place >= 0);
  return places.length ? Math.min(...places) + 1 : null;
}

/** How the row stands, in words. @param {State} state @param {Node[]} nodes */
export function standingText(state, nodes) {
  const [{ kind, findable, refs }] = nodes;
  if (kind === "held") {
    const names = ownersIn(state, nodes).map((id) => t("sequence.name", { id }));
    return t(findable ? "prefix.said.held" : "prefix.said.held_lost", { owners: names.join(t("join.list")), n: refs });
  }
  if (kind === "gone") return t("prefix.said.gone");
  return t(findable ? "prefix.said.reusable" : "prefix.said.lost", { place: grouped(nextOut(state, nodes) ?? 0) });
}

/**
 * A row in words, a line each.
 *
 * @param {TraceLog} now
 * @param {State} state
 * @param {Row} row
 * @param {number} hits its contents that the prompt asked about would hit
 */
export function rowLines(now, state, { nodes }, hits) {
  const tokens = nodes.length * state.block_size;
  const lines = [
    t(nodes.length === 1 ? "prefix.said.block" : "prefix.said.blocks", {
      ids: idsText(nodes),
      n: nodes.length,
      tokens: grouped(tokens),
    }),
    standingText(state, nodes),
  ];
  const count = hitsOf(nodes);
  if (count) lines.push(t("prefix.said.hits", { n: count }));
  if (nodes[0].kind === "reusable") {
    const until = heldUntil(now, state, nodes);
    if (until >= 0) lines.push(t("prefix.said.until", { record: grouped(until + 1) }));
  }
  const [{ blocks, content }] = nodes;
  if (nodes.length === 1 && blocks[0]?.block_hash)
    lines.push(t("prefix.said.hash", { hash: hashText(blocks[0].block_hash) }));
  if (content.salt !== null && !content.parent && !isPrivate())
    lines.push(t("prefix.said.salt", { salt: content.salt }));
  if (hits) lines.push(t(hits < nodes.length ? "prefix.said.hit_some" : "prefix.said.hit", { n: hits }));
  return lines;
}
