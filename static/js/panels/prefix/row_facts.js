// Facts about a row of the prefix tree: tokens as text, blocks, holders, end of the last use.

import { ownersByBlock } from "../../core/groups.js";
import { blockHistory } from "../../core/history.js";
import { labelsText, tokenLabels } from "../../core/labels.js";
import { hashText } from "../../i18n/operations.js";
import { grouped, t } from "../../i18n/words.js";
import { log } from "../../state/store.js";

/** @import {TraceLog} from "../../core/log.js" */
/** @import {Row} from "../../core/prefix_branches.js" */
/** @import {Node} from "../../core/prefix_tree.js" */
/** @import {State} from "../../state/store.js" */

/** Whether the log omits texts and token ids. */
export const isPrivate = () => log.value?.header.engine.private === true;

const MAX_RUNS = 3; // maximum runs of block ids listed
const MAX_TOKENS = 160; // of a row that are decoded; more would not be visible

/** @typedef {{text: string, prompt: boolean}} Piece of text; `prompt`: prompt text, else generated */

/**
 * Return the tokens at the beginning of a row as text, split where the prompt ends.
 * @param {State} state @param {Node[]} nodes
 * @returns {Piece[]}
 */
export function piecesOf(state, nodes) {
  const size = state.block_size;
  if (isPrivate()) {
    const from = nodes[0].content.logical * size;
    return [{ text: t("prefix.positions", { from, to: from + nodes.length * size - 1 }), prompt: true }];
  }
  const decoded = nodes.slice(0, Math.ceil(MAX_TOKENS / size));
  /** @type {{labels: import("../../core/labels.js").Label[], prompt: boolean}[]} */
  const runs = [];
  for (const { content } of decoded) {
    const sequence = state.sequences.get(content.seq);
    if (!sequence) continue; // the sequence appears only in later records
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

/** Replace single space marks between words by spaces; leading and trailing marks remain. @param {string} text */
const spaced = (text) => text.replace(/(?<=[^␣])␣(?=[^␣])/g, " ");

/** @param {Node[]} nodes */
export const blockIds = (nodes) => nodes.flatMap(({ blocks }) => blocks.map((block) => block.block_id));

/** Abbreviate block ids: `0–6 9 12 …`. @param {Node[]} nodes */
export function idsText(nodes) {
  /** @type {[number, number][]} */
  const runs = [];
  for (const id of blockIds(nodes)) {
    const last = runs[runs.length - 1];
    if (last && id === last[1] + 1) last[1] = id;
    else runs.push([id, id]);
  }
  const texts = runs.slice(0, MAX_RUNS).map(([from, to]) => (from === to ? String(from) : `${from}–${to}`));
  return runs.length ? texts.join(" ") + (runs.length > MAX_RUNS ? " …" : "") : "–";
}

/** Return the sequences that hold a row's blocks. @param {State} state @param {Node[]} nodes */
export function ownersIn(state, nodes) {
  const owners = ownersByBlock(state);
  return [...new Set(blockIds(nodes).flatMap((id) => owners.get(id) ?? []))].sort((a, b) => a - b);
}

/** Largest number of hits of one of a row's blocks since it was computed. @param {Node[]} nodes */
export const hitsOf = (nodes) => Math.max(0, ...nodes.flatMap(({ blocks }) => blocks.map((block) => block.num_hits)));

/**
 * Return the last record in which a free block of the row was held, or -1 if none was.
 * @param {TraceLog} now @param {State} state @param {Node[]} nodes
 */
export function lastHeldIn(now, state, nodes) {
  const records = blockIds(nodes).map(
    (id) => blockHistory(now, id, state.index).findLast(({ op }) => "to" in op && op.to !== null)?.record ?? -1,
  );
  return Math.max(-1, ...records);
}

/**
 * Return the first place (from 1) of the row's blocks in the free queue, or null if they are held.
 * @param {State} state @param {Node[]} nodes
 */
export function evictionPlace(state, nodes) {
  const ids = new Set(blockIds(nodes));
  const places = state.free_queues.map((queue) => queue.findIndex((id) => ids.has(id))).filter((place) => place >= 0);
  return places.length ? Math.min(...places) + 1 : null;
}

/** Describe the state of a row. @param {State} state @param {Node[]} nodes */
function statusText(state, nodes) {
  const [{ kind, findable, refs }] = nodes;
  if (kind === "held") {
    const names = ownersIn(state, nodes).map((id) => t("sequence.name", { id }));
    return t(findable ? "prefix.said.held" : "prefix.said.held_lost", { owners: names.join(t("join.list")), n: refs });
  }
  if (kind === "gone") return t("prefix.said.gone");
  const place = grouped(evictionPlace(state, nodes) ?? 0);
  return t(findable ? "prefix.said.reusable" : "prefix.said.lost", { place });
}

/**
 * Describe a row, one fact per line.
 * @param {TraceLog} now @param {State} state @param {Row} row
 * @param {number} hits number of its blocks that the looked-up prompt would hit
 */
export function rowLines(now, state, { nodes }, hits) {
  const tokens = nodes.length * state.block_size;
  const lines = [
    t(nodes.length === 1 ? "prefix.said.block" : "prefix.said.blocks", {
      ids: idsText(nodes),
      n: nodes.length,
      tokens: grouped(tokens),
    }),
    statusText(state, nodes),
  ];
  const count = hitsOf(nodes);
  if (count) lines.push(t("prefix.said.hits", { n: count }));
  if (nodes[0].kind === "reusable") {
    const until = lastHeldIn(now, state, nodes);
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
