// Prefix tree as rows: consecutive contents without a fork and with the same owners form one branch, which can be
// expanded into its blocks. Pure.

/** @import {Node} from "./prefix_tree.js" */

/**
 * @typedef {object} Branch
 * @property {string} id hash of its first content
 * @property {Node[]} nodes at least one
 * @property {Branch[]} children
 * @typedef {object} Row
 * @property {string} id
 * @property {Branch} branch
 * @property {Node[]} nodes those of the branch, or of an expanded branch the row's only one
 * @property {boolean} single whether the row is one block of an expanded branch
 * @property {number} level from 1 on
 * @property {number} place index among its siblings, from 1 on
 * @property {number} of number of siblings
 * @property {number} parent index of the parent row; -1: none
 * @property {boolean | null} open whether its children (for a leaf: its blocks) are shown; null: a single block
 * without children
 */

/**
 * @param {Node[]} nodes children of the same prefix
 * @param {(a: Node, b: Node) => boolean} [canShare] whether two consecutive contents may share a branch
 * @returns {Branch[]}
 */
export function branchesOf(nodes, canShare = haveSameOwners) {
  /** @type {Branch[]} */
  const roots = [];
  /** @type {{from: Node[], into: Branch[]}[]} iterative walk: a prefix may be thousands of blocks long */
  const open = [{ from: nodes, into: roots }];
  for (let next = open.pop(); next; next = open.pop())
    for (const first of next.from) {
      const chain = [first];
      for (let last = first; last.children.length === 1 && canShare(last, last.children[0]); )
        chain.push((last = last.children[0]));
      /** @type {Branch} */
      const branch = { id: first.hash, nodes: chain, children: [] };
      next.into.push(branch);
      open.push({ from: chain[chain.length - 1].children, into: branch.children });
    }
  return roots;
}

/**
 * Return whether two consecutive contents have the same number of owners and copies, and either both or neither can be
 * hit.
 * @param {Node} a
 * @param {Node} b
 */
const haveSameOwners = (a, b) =>
  a.kind === b.kind && a.refs === b.refs && a.findable === b.findable && a.blocks.length === b.blocks.length;

/**
 * Return the rows of branches, top to bottom.
 * @param {Branch[]} branches
 * @param {ReadonlySet<string>} closed collapsed branches
 * @param {ReadonlySet<string>} opened branches shown block by block
 * @returns {Row[]}
 */
export function rowsOf(branches, closed, opened) {
  /** @type {Row[]} */
  const rows = [];
  /** @type {{branch: Branch, level: number, place: number, of: number, parent: number}[]} */
  const open = [];
  /** @param {Branch[]} list @param {number} level @param {number} parent @param {number} before @param {number} of */
  const enter = (list, level, parent, before, of) => {
    for (let i = list.length - 1; i >= 0; i--) open.push({ branch: list[i], level, place: before + i + 1, of, parent });
  };
  enter(branches, 1, -1, 0, branches.length);
  for (let next = open.pop(); next; next = open.pop()) {
    const { branch, level, place, of, parent } = next;
    const singles = opened.has(branch.id) && branch.nodes.length > 1 ? branch.nodes : [];
    const forks = branch.children.length > 0;
    const isCollapsed = forks && closed.has(branch.id);
    const at = rows.length;
    rows.push({
      id: branch.id,
      branch,
      nodes: branch.nodes,
      single: false,
      level,
      place,
      of,
      parent,
      open: forks ? !isCollapsed : branch.nodes.length > 1 ? singles.length > 0 : null,
    });
    if (isCollapsed) continue;
    singles.forEach((node, i) =>
      rows.push({
        id: `${node.hash}.`,
        branch,
        nodes: [node],
        single: true,
        level: level + 1,
        place: i + 1,
        of: singles.length + branch.children.length,
        parent: at,
        open: null,
      }),
    );
    enter(branch.children, level + 1, at, singles.length, singles.length + branch.children.length);
  }
  return rows;
}
