// Who would hit: what the prefix cache has of a prompt, and why no more. Finds what engine/cache/prefix_index.py would;
// a test holds it to the lookups of recorded runs. Pure.

import { contentsOf } from "./cached_contents.js";
import { blockSize } from "./geometry.js";
import { groupOf } from "./groups.js";
import { groupsOf, keysUpTo, missingUpTo } from "./prefix_tree.js";

/**
 * @typedef {import("./prefix_tree.js").Node} Node
 * @typedef {import("./cached_contents.js").Content} Content
 * @typedef {"all" | "too_short" | "evicted" | "differs" | "other_salt" | "no_state" | "nothing"} End why the hit ends
 *   where it does: no more may hit; no whole block may; the next block's content was evicted; what is cached goes on
 *   with other tokens; the beginning is cached under another `cache_salt`; keys are there but no state; nothing is
 *   cached that begins, or goes on, like this
 * @typedef {object} Hit
 * @property {Node[]} way the contents that hit
 * @property {number} tokens that hit
 * @property {number} of tokens of the prompt
 * @property {number} most blocks that may hit: one token must run through the model, to get logits
 * @property {End} end
 * @property {Content | null} lost with `evicted`: what is missing
 * @property {import("./cached_contents.js").Eviction | null} eviction with `evicted`: where it went
 * @property {number} shared with `differs`: tokens of the next block that the closest cached one shares
 * @property {Node | null} closest with `differs`: that one
 */

/**
 * What `tree` has of a prompt.
 * @param {import("./prefix_tree.js").Log} log @param {import("./prefix_tree.js").Tree} tree the cache of `state`
 * @param {import("./prefix_tree.js").State} state @param {number[]} tokens ids @param {string | null} [salt]
 * @param {number} [until] the last record whose evictions have happened
 * @returns {Hit}
 */
export function wouldHit(log, tree, state, tokens, salt = null, until = state.index) {
  const contents = contentsOf(log);
  const groups = groupsOf(state, tree.instance);
  const size = blockSize(log.header);
  const most = Math.max(0, Math.floor((tokens.length - 1) / size));
  /** @type {Hit} */
  const hit = {
    way: [],
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
  /** @type {Node[]} what is in the tree of the prompt, whether it can be found or not */
  const way = [];
  /** @type {Content | undefined} what comes next, if it ever was cached */
  let next;
  while (way.length < most) {
    next = contents.after(way.at(-1)?.hash ?? null, salt, blockAt(way.length));
    const node = next && tree.byHash.get(next.hash);
    if (!node) break;
    way.push(node);
  }
  let count = way.length;
  while (count > 0 && !way[count - 1].findable) count -= 1;
  hit.way = way.slice(0, count);
  hit.tokens = count * size;
  if (!most) return { ...hit, end: "too_short" };
  if (count === most) return hit;
  const lost = count < way.length ? missingUpTo(way[count], groups, size) : (next ?? null);
  const eviction = lost && lastUntil(lost.evictions, groups, until);
  if (lost && eviction) return { ...hit, end: "evicted", lost, eviction };
  const keys = keysUpTo(way, groups, size);
  if (keys > count) return { ...hit, end: "no_state", shared: keys * size };
  if (!count && otherSalt(tree, blockAt(0), salt)) return { ...hit, end: "other_salt" };
  const siblings = (way[count - 1]?.children ?? tree.roots).filter((node) => node.content.salt === salt);
  for (const node of siblings) {
    const shared = sharedTokens(node.content.tokens, blockAt(count));
    if (shared > hit.shared || !hit.closest) [hit.shared, hit.closest] = [shared, node];
  }
  return { ...hit, end: hit.closest && (count || hit.shared) ? "differs" : "nothing" };
}

/**
 * Whether a head or layer is off for a prompt that comes after record `index`: what is computed then has hashes that do
 * not follow from its tokens alone. Mirrors engine/cache/ablate_settings.py.
 * @param {Pick<import("./trace.js").Header, "engine">} header @param {number} index
 */
export const isAblated = ({ engine }, index) =>
  String(engine.ablate ?? "")
    .split(" ")
    .some((off) => Number(off.split("@")[1]) <= index + 1);

/**
 * The last eviction from these groups.
 * @param {import("./cached_contents.js").Eviction[]} evictions ascending @param {import("./groups.js").Group[]} groups
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

/** @param {import("./prefix_tree.js").Tree} tree @param {number[]} tokens @param {string | null} salt */
const otherSalt = (tree, tokens, salt) =>
  tree.roots.some(
    ({ content, findable }) =>
      findable && content.salt !== salt && sharedTokens(content.tokens, tokens) === tokens.length,
  );
