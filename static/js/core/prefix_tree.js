// What the prefix cache has now, as a tree: contents that follow the same beginning are branches of it. Pure.
//
//   春江潮水 ── 连海平， ── 海上明月      held by two, then by one
//            └─ 向东流，                  nobody holds it: found again until its block is taken

import { contentsOf, hashKey } from "./cached_contents.js";
import { blockSize } from "./geometry.js";
import { groupOf, isOfStates } from "./groups.js";

/**
 * @typedef {import("./state_parts.js").State} State
 * @typedef {import("./state_parts.js").Block} Block
 * @typedef {import("./groups.js").Group} Group
 * @typedef {{records: import("./trace.js").StepRecord[], header: import("./trace.js").Header}} Log
 * @typedef {"held" | "reusable" | "gone"} Kind held by a sequence; free, and found again until its block is taken;
 *   evicted, and here only for what follows it
 * @typedef {object} Node one content
 * @property {string} hash
 * @property {import("./cached_contents.js").Content} content
 * @property {Node | null} parent null: it begins a sequence, or of a watched server what comes before is unknown
 * @property {Node[]} children in the order in which they were computed first
 * @property {Block[]} blocks that have it: one, but for copies and for other groups of layers
 * @property {Kind} kind
 * @property {number} refs the most owners that a block of it has
 * @property {boolean} findable whether a prompt can hit it: nothing that comes before it is missing
 * @typedef {{instance: number, roots: Node[], byHash: Map<string, Node>, held: number, reusable: number}} Tree `held`
 *   and `reusable`: blocks with a hash
 */

/**
 * The prefix cache of an instance in `state`, a state of `log`: each has one of its own.
 * @param {Log} log @param {State} state @param {number} [instance] @returns {Tree}
 */
export function prefixTree(log, state, instance = 0) {
  const contents = contentsOf(log);
  /** @type {Tree} */
  const tree = { instance, roots: [], byHash: new Map(), held: 0, reusable: 0 };
  const groups = groupsOf(state, instance);
  const isOwn = (/** @type {Block} */ { block_id: id }) => groups[groupOf(groups, id)] !== undefined;
  for (const block of state.blocks) {
    if (block.block_hash === null || !isOwn(block)) continue;
    nodeOf(tree, contents, hashKey(block.block_hash))?.blocks.push(block);
    tree[block.ref_count > 0 ? "held" : "reusable"] += 1;
  }
  for (const node of tree.byHash.values()) {
    const { blocks } = node;
    node.refs = Math.max(0, ...blocks.map((block) => block.ref_count));
    node.kind = node.refs > 0 ? "held" : blocks.length ? "reusable" : "gone";
    (node.parent?.children ?? tree.roots).push(node);
  }
  const older = (/** @type {Node} */ a, /** @type {Node} */ b) =>
    a.content.record - b.content.record || a.content.seq - b.content.seq;
  const size = blockSize(log.header);
  /** @type {Map<Node, boolean[]>} by group: whether everything is there that it keeps of the beginning */
  const begun = new Map();
  const ways = tree.roots.sort(older).slice();
  for (let node = ways.pop(); node; node = ways.pop()) {
    const before = begun.get(/** @type {Node} of a root: null, which is none */ (node.parent));
    const own = groups.map((group, g) => (before?.[g] ?? true) && (!isKept(node, group, size) || has(node, group)));
    begun.set(node, own);
    node.findable = own.every(Boolean) && groups.every((group) => seesAll(node, group, size));
    ways.push(...node.children.sort(older));
  }
  return tree;
}

/**
 * The node of a content, made with those before it where it is new. Undefined: the log never said that it was cached.
 * @param {Tree} tree @param {import("./cached_contents.js").Contents} contents @param {string} hash
 * @returns {Node | undefined}
 */
function nodeOf(tree, contents, hash) {
  const made = [];
  let found = tree.byHash.get(hash);
  for (let next = hash; !found; ) {
    const content = contents.byHash.get(next);
    if (!content) {
      if (made.length) break; // a watched server never said what comes before
      return undefined;
    }
    made.push(content);
    if (content.parent === null) break;
    next = content.parent;
    found = tree.byHash.get(next);
  }
  for (const content of made.reverse()) {
    /** @type {Node} */
    const node = {
      hash: content.hash,
      content,
      parent: found ?? null,
      children: [],
      blocks: [],
      kind: "gone",
      refs: 0,
      findable: false,
    };
    tree.byHash.set(content.hash, (found = node));
  }
  return found;
}

/** Whether a sequence begins with a root of the tree; else what comes before it is unknown. @param {Node} root */
export const beginsSequence = ({ content }) => content.parent === null && !content.unsaid;

/** The groups of layers of an instance. @param {State} state @param {number} instance */
export const groupsOf = ({ block_groups: groups }, instance) => groups.filter((group) => group.instance === instance);

/** @param {Node} node @param {Group} group */
const has = (node, { first_block: first, num_blocks: count }) =>
  node.blocks.some(({ block_id: id }) => id >= first && id < first + count);

/** Keys that a query sees in a group, null: all. Of states it needs the one before it. @param {Group} group */
const sightIn = (group) => (isOfStates(group) ? 2 : group.window);

/**
 * Where the blocks begin that the next query after `count` of them sees, beside the sinks': `Retention` in
 * engine/cache/reach.py.
 * @param {number} count @param {Group} group @param {number} size slots of a block
 */
function seenFrom(count, group, size) {
  const window = sightIn(group);
  if (window === null) return 0;
  const hidden = Math.floor(Math.max(0, count * size - Math.max(window, 2) + 1) / size);
  return Math.max(Math.ceil(group.sinks / size), hidden);
}

/** Whether a group needs a block for every hit that goes beyond it: under a window only the sinks are. */
const isKept = (/** @type {Node} */ { content }, /** @type {Group} */ group, /** @type {number} */ size) =>
  sightIn(group) === null || content.logical < Math.ceil(group.sinks / size);

/**
 * Whether a group has the blocks up to `node` that the next query after it sees in its window.
 * @param {Node} node @param {Group} group @param {number} size
 */
function seesAll(node, group, size) {
  if (sightIn(group) === null) return true;
  const from = seenFrom(node.content.logical + 1, group, size);
  for (let at = /** @type {Node | null} */ (node); at && at.content.logical >= from; at = at.parent)
    if (!has(at, group)) return false;
  return true;
}

/**
 * The first content up to `node` that some group lacks for a hit that ends with it; null: none.
 * @param {Node} node one that is not findable @param {Group[]} groups @param {number} size
 */
export function missingUpTo(node, groups, size) {
  /** @type {Node[]} */
  const way = [];
  for (let at = /** @type {Node | null} */ (node); at; at = at.parent) way.push(at);
  way.reverse();
  const lacks = (/** @type {Group} */ group) =>
    way.find((at, i) => (isKept(at, group, size) || i >= seenFrom(way.length, group, size)) && !has(at, group));
  for (const group of groups) {
    const found = lacks(group);
    if (found) return found.content;
  }
  return null;
}

/**
 * Contents of a way from a root whose keys are all there, if layers with states needed none; 0 where no layer has one.
 * @param {Node[]} way @param {Group[]} groups @param {number} size
 */
export function keysUpTo(way, groups, size) {
  const ofKeys = groups.filter((group) => !isOfStates(group));
  if (ofKeys.length === groups.length) return 0;
  let count = way.length;
  while (count > 0 && missingUpTo(way[count - 1], ofKeys, size)) count -= 1;
  return count;
}
