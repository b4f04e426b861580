// Largest branches of the prefix cache, from a fully loaded log; `engine/trace/log_index/prefixes.py` finds those of
// logs that are too long to load. Pure.

import { branchesOf } from "./prefix_branches.js";
import { beginsSequence } from "./prefix_tree.js";
import { lowest } from "./search.js";

/** @import {Kind, Node, Tree} from "./prefix_tree.js" */

/**
 * @typedef {object} Branch consecutive contents without a fork and with the same kind
 * @property {number | string} id
 * @property {number} parent index of the parent branch; -1: none
 * @property {number} level from 1 on
 * @property {boolean} begins whether a sequence begins with it; if false for a root, its predecessor is unknown
 * @property {Kind} standing
 * @property {number} blocks contents of the branch
 * @property {number} tokens
 * @property {number} all_blocks cached contents of it and all descendants
 * @property {number} all_tokens tokens of these
 * @property {number} held contents of these that sequences hold
 * @property {number} used_in last record that allocated or hit one of these; -1: none
 * @property {number} first_in record in which its first content was computed or stored
 * @property {number[]} token_ids of its first content, at most MAX_TOKEN_IDS
 * @property {string} text its first tokens as text, as far as they are valid UTF-8
 * @property {number} num_more child branches left out
 * @typedef {{branches: Branch[], num_more: number, blocks: number, tokens: number, unnamed: number}} Branches
 * @typedef {{blocks: number, tokens: number, held: number, used: number}} Sum
 */

const MAX_TOKEN_IDS = 6;

/**
 * Return the `limit` branches of a tree with the most tokens, parents before children.
 * @param {Tree} tree
 * @param {number} limit
 * @returns {Branches}
 */
export function branchesIn(tree, limit) {
  const sums = sumsOf(tree);
  const sumOf = (/** @type {Node} */ node) => /** @type {Sum} */ (sums.get(node));
  const size = (/** @type {Open} */ { from }) => sumOf(from.nodes[0]).tokens;
  const bySize = (/** @type {Open} */ a, /** @type {Open} */ b) => size(b) - size(a);
  /** @typedef {{branch: Branch, children: Found[]}} Found */
  /** @typedef {{from: import("./prefix_branches.js").Branch, parent: Found | null}} Open */
  const open = branchesOf(tree.roots, haveSameKind)
    .map((from) => /** @type {Open} */ ({ from, parent: null }))
    .sort(bySize);
  /** @type {Found[]} */
  const roots = [];
  for (let count = 0; open.length && count < limit; count++) {
    const { from, parent } = /** @type {Open} */ (open.shift());
    const [first] = from.nodes;
    const sum = sumOf(first);
    /** @type {Found} */
    const found = {
      branch: {
        id: from.id,
        parent: -1,
        level: (parent?.branch.level ?? 0) + 1,
        begins: beginsSequence(first),
        standing: first.kind,
        blocks: from.nodes.length,
        tokens: from.nodes.reduce((total, { content }) => total + content.tokens.length, 0),
        all_blocks: sum.blocks,
        all_tokens: sum.tokens,
        held: sum.held,
        used_in: sum.used,
        first_in: first.content.record,
        token_ids: first.content.tokens.slice(0, MAX_TOKEN_IDS),
        text: "",
        num_more: from.children.length,
      },
      children: [],
    };
    if (parent) parent.branch.num_more -= 1;
    (parent?.children ?? roots).push(found);
    for (const child of from.children) insert(open, { from: child, parent: found }, bySize);
  }
  /** @type {Branch[]} */
  const branches = [];
  const stack = roots.toReversed().map((found) => ({ found, parent: -1 }));
  for (let next = stack.pop(); next; next = stack.pop()) {
    next.found.branch.parent = next.parent;
    const parent = branches.push(next.found.branch) - 1;
    for (const found of next.found.children.toReversed()) stack.push({ found, parent });
  }
  const all = (/** @type {"blocks" | "tokens"} */ name) =>
    tree.roots.reduce((total, node) => total + sumOf(node)[name], 0);
  const omitted = open.filter(({ parent }) => parent === null).length;
  return { branches, num_more: omitted, blocks: all("blocks"), tokens: all("tokens"), unnamed: 0 };
}

/** @param {Node} a @param {Node} b */
const haveSameKind = (a, b) => a.kind === b.kind;

/** Return the sums of each node and its descendants. @param {Tree} tree @returns {Map<Node, Sum>} */
function sumsOf({ roots }) {
  /** @type {Node[]} parents before children */
  const order = [...roots];
  for (let i = 0; i < order.length; i++) order.push(...order[i].children);
  /** @type {Map<Node, Sum>} */
  const sums = new Map();
  for (const node of order.reverse()) {
    const { blocks, content, children } = node;
    const own = blocks.length ? 1 : 0;
    const sum = {
      blocks: own,
      tokens: own * content.tokens.length,
      held: Number(node.kind === "held"),
      used: Math.max(-1, ...blocks.map((block) => block.last_hit_in ?? block.allocated_in ?? -1)),
    };
    for (const child of children) {
      const below = /** @type {Sum} */ (sums.get(child));
      sum.blocks += below.blocks;
      sum.tokens += below.tokens;
      sum.held += below.held;
      sum.used = Math.max(sum.used, below.used);
    }
    sums.set(node, sum);
  }
  return sums;
}

/**
 * Insert into a sorted list, after equal entries.
 * @template T
 * @param {T[]} list
 * @param {T} one
 * @param {(a: T, b: T) => number} order
 */
function insert(list, one, order) {
  const place = lowest(list.length, (i) => order(list[i], one) > 0);
  list.splice(place, 0, one);
}
