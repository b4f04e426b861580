// Tree of the current prefix cache: contents with a common prefix are branches of its node. Pure.
//
//   春江潮水 ── 连海平， ── 海上明月      two owners, then one
//            └─ 向东流，                  no owner: can be hit until its block is allocated

import { contentsOf, hashKey } from "./cached_contents.js";
import { blockSize } from "./geometry.js";
import { groupOf, isOfStates } from "./groups.js";

/** @import {Group} from "./groups.js" */
/** @import {Block, State} from "./state_access.js" */

/**
 * @typedef {{records: import("./trace.js").StepRecord[], header: import("./trace.js").Header}} Log
 * @typedef {"held" | "reusable" | "gone"} Kind held by a sequence; free, and can be hit until its block is allocated;
 * evicted, and present only for its successors
 * @typedef {object} Node one content
 * @property {string} hash
 * @property {import("./cached_contents.js").Content} content
 * @property {Node | null} parent null: it begins a sequence, or a monitored server did not report it
 * @property {Node[]} children in the order of their first computation
 * @property {Block[]} blocks with this content: one, except for copies and other groups of layers
 * @property {Kind} kind
 * @property {number} refs maximum number of owners of its blocks
 * @property {boolean} findable whether a prompt can hit it: no predecessor that it needs is missing
 * @typedef {{instance: number, roots: Node[], byHash: Map<string, Node>, held: number, reusable: number}} Tree `held`
 *   and `reusable`: blocks with a hash
 */

/**
 * Return the prefix cache of an instance in `state`, a state of `log`; each instance has its own.
 * @param {Log} log
 * @param {State} state
 * @param {number} [instance]
 * @returns {Tree}
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
  /** @type {Map<Node, boolean[]>} by group: whether it has all blocks of the prefix that it retains */
  const complete = new Map();
  const stack = tree.roots.sort(older).slice();
  for (let node = stack.pop(); node; node = stack.pop()) {
    const before = complete.get(/** @type {Node} null for a root, which is no key of the map */ (node.parent));
    const own = groups.map((group, g) => (before?.[g] ?? true) && (!isRetained(node, group, size) || has(node, group)));
    complete.set(node, own);
    node.findable = own.every(Boolean) && groups.every((group) => hasWindow(node, group, size));
    stack.push(...node.children.sort(older));
  }
  return tree;
}

/**
 * Return the node of a content, creating it and its predecessors if needed. Undefined if the log never cached it.
 * @param {Tree} tree
 * @param {import("./cached_contents.js").Contents} contents
 * @param {string} hash
 * @returns {Node | undefined}
 */
function nodeOf(tree, contents, hash) {
  const created = [];
  let found = tree.byHash.get(hash);
  for (let next = hash; !found; ) {
    const content = contents.byHash.get(next);
    if (!content) {
      if (created.length) break; // a monitored server did not report the predecessor
      return undefined;
    }
    created.push(content);
    if (content.parent === null) break;
    next = content.parent;
    found = tree.byHash.get(next);
  }
  for (const content of created.reverse()) {
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

/**
 * Return whether a sequence begins with a root of the tree; otherwise its predecessor is unknown.
 * @param {Node} root
 */
export const beginsSequence = ({ content }) => content.parent === null && !content.parentUnknown;

/** Return the groups of layers of an instance. @param {State} state @param {number} instance */
export const groupsOf = ({ block_groups: groups }, instance) => groups.filter((group) => group.instance === instance);

/** @param {Node} node @param {Group} group */
const has = (node, { first_block: first, num_blocks: count }) =>
  node.blocks.some(({ block_id: id }) => id >= first && id < first + count);

/**
 * Return the number of keys a query attends to in a group; null: all. A group of states needs the previous state.
 * @param {Group} group
 */
const spanIn = (group) => (isOfStates(group) ? 2 : group.window);

/**
 * Return the first block in the window of the next query after `count` blocks, not counting those of sinks: `Retention`
 * in engine/cache/attention_span.py.
 * @param {number} count
 * @param {Group} group
 * @param {number} size slots of a block
 */
function firstVisible(count, group, size) {
  const window = spanIn(group);
  if (window === null) return 0;
  const hidden = Math.floor(Math.max(0, count * size - Math.max(window, 2) + 1) / size);
  return Math.max(Math.ceil(group.sinks / size), hidden);
}

/** Return whether every hit beyond a block needs it: in a group with a window, only blocks of sinks. */
const isRetained = (/** @type {Node} */ { content }, /** @type {Group} */ group, /** @type {number} */ size) =>
  spanIn(group) === null || content.logical < Math.ceil(group.sinks / size);

/**
 * Return whether a group has the blocks up to `node` in the window of the next query.
 * @param {Node} node
 * @param {Group} group
 * @param {number} size
 */
function hasWindow(node, group, size) {
  if (spanIn(group) === null) return true;
  const from = firstVisible(node.content.logical + 1, group, size);
  for (let at = /** @type {Node | null} */ (node); at && at.content.logical >= from; at = at.parent)
    if (!has(at, group)) return false;
  return true;
}

/**
 * Return the first content up to `node` that some group lacks for a hit ending there; null: none.
 * @param {Node} node not findable
 * @param {Group[]} groups
 * @param {number} size
 */
export function missingUpTo(node, groups, size) {
  /** @type {Node[]} */
  const path = [];
  for (let at = /** @type {Node | null} */ (node); at; at = at.parent) path.push(at);
  path.reverse();
  const lacks = (/** @type {Group} */ group) =>
    path.find(
      (at, i) => (isRetained(at, group, size) || i >= firstVisible(path.length, group, size)) && !has(at, group),
    );
  for (const group of groups) {
    const found = lacks(group);
    if (found) return found.content;
  }
  return null;
}

/**
 * Return the number of contents on a path from a root whose keys are all present, ignoring groups of states; 0 if there
 * are no such groups.
 * @param {Node[]} path
 * @param {Group[]} groups
 * @param {number} size
 */
export function keysUpTo(path, groups, size) {
  const ofKeys = groups.filter((group) => !isOfStates(group));
  if (ofKeys.length === groups.length) return 0;
  let count = path.length;
  while (count > 0 && missingUpTo(path[count - 1], ofKeys, size)) count -= 1;
  return count;
}
