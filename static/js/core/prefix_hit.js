// Prefix lookup for a prompt that was not submitted: the cached part, and why it ends there. Matches
// engine/cache/prefix_index.py; a test compares it with the lookups of recorded runs. Pure.

import { contentsOf } from "./cached_contents.js";
import { blockSize } from "./geometry.js";
import { groupOf } from "./groups.js";
import { groupsOf, keysUpTo, missingUpTo } from "./prefix_tree.js";

/** @import {Content, Eviction} from "./cached_contents.js" */
/** @import {Node, Tree} from "./prefix_tree.js" */

/**
 * @typedef {"all" | "too_short" | "evicted" | "differs" | "other_salt" | "no_state" | "nothing"} End reason for the
 * hit's end: everything that may hit was hit; no complete block; the next block's content was evicted; cached contents
 * continue with other tokens; the prefix is cached under another `cache_salt`; keys are cached but no state; no content
 * with this prefix is cached
 * @typedef {object} Hit
 * @property {Node[]} path contents that are hit
 * @property {number} tokens number of tokens hit
 * @property {number} of number of tokens of the prompt
 * @property {number} most number of blocks that may hit: at least one token must be computed for its logits
 * @property {End} end
 * @property {Content | null} lost for `evicted`: the missing content
 * @property {Eviction | null} eviction for `evicted`: its eviction
 * @property {number} shared for `differs`: tokens that the next block shares with the closest cached one
 * @property {Node | null} closest for `differs`: that content
 */

/**
 * Look up a prompt in `tree`.
 * @param {import("./prefix_tree.js").Log} log
 * @param {Tree} tree cache of `state`
 * @param {import("./state_access.js").State} state
 * @param {number[]} tokens ids
 * @param {string | null} [salt]
 * @param {number} [until] last record whose evictions count
 * @returns {Hit}
 */
export function wouldHit(log, tree, state, tokens, salt = null, until = state.index) {
  const contents = contentsOf(log);
  const groups = groupsOf(state, tree.instance);
  const size = blockSize(log.header);
  const most = Math.max(0, Math.floor((tokens.length - 1) / size));
  /** @type {Hit} */
  const hit = {
    path: [],
    tokens: 0,
    of: tokens.length,
    most,
    end: "all",
    lost: null,
    eviction: null,
    shared: 0,
    closest: null,
  };
  const blockAt = (/** @type {number} */ logical) => tokens.slice(logical * size, (logical + 1) * size);
  /** @type {Node[]} contents of the prompt in the tree, whether they can be hit or not */
  const path = [];
  /** @type {Content | undefined} next content, if it was ever cached */
  let next;
  while (path.length < most) {
    next = contents.after(path.at(-1)?.hash ?? null, salt, blockAt(path.length));
    const node = next && tree.byHash.get(next.hash);
    if (!node) break;
    path.push(node);
  }
  let count = path.length;
  while (count > 0 && !path[count - 1].findable) count -= 1;
  hit.path = path.slice(0, count);
  hit.tokens = count * size;
  if (!most) return { ...hit, end: "too_short" };
  if (count === most) return hit;
  const lost = count < path.length ? missingUpTo(path[count], groups, size) : (next ?? null);
  const eviction = lost && lastUntil(lost.evictions, groups, until);
  if (lost && eviction) return { ...hit, end: "evicted", lost, eviction };
  const keys = keysUpTo(path, groups, size);
  if (keys > count) return { ...hit, end: "no_state", shared: keys * size };
  if (!count && otherSalt(tree, blockAt(0), salt)) return { ...hit, end: "other_salt" };
  const siblings = (path[count - 1]?.children ?? tree.roots).filter((node) => node.content.salt === salt);
  for (const node of siblings) {
    const shared = sharedTokens(node.content.tokens, blockAt(count));
    if (shared > hit.shared || !hit.closest) [hit.shared, hit.closest] = [shared, node];
  }
  return { ...hit, end: hit.closest && (count || hit.shared) ? "differs" : "nothing" };
}

/**
 * Return whether a head or layer is ablated for a prompt submitted after record `index`. The hashes of its blocks then
 * depend on more than its tokens. Mirrors engine/cache/ablate_settings.py.
 * @param {Pick<import("./trace.js").Header, "engine">} header
 * @param {number} index
 */
export const isAblated = ({ engine }, index) =>
  String(engine.ablate ?? "")
    .split(" ")
    .some((off) => Number(off.split("@")[1]) <= index + 1);

/**
 * Return the last eviction from these groups.
 * @param {Eviction[]} evictions ascending
 * @param {import("./groups.js").Group[]} groups
 * @param {number} until record
 */
const lastUntil = (evictions, groups, until) =>
  evictions.findLast(({ record, block }) => record <= until && groupOf(groups, block) >= 0) ?? null;

/** @param {number[]} a @param {number[]} b */
function sharedTokens(a, b) {
  let count = 0;
  while (count < a.length && a[count] === b[count]) count += 1;
  return count;
}

/** @param {Tree} tree @param {number[]} tokens @param {string | null} salt */
const otherSalt = (tree, tokens, salt) =>
  tree.roots.some(
    ({ content, findable }) =>
      findable && content.salt !== salt && sharedTokens(content.tokens, tokens) === tokens.length,
  );
