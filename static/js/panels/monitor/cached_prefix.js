// Cached part of a prompt on a monitored server, derived from its cache events per token content and cache group.

/** @import {Chains, Group, Link} from "../../core/observed_cache.js" */

/**
 * @typedef {object} GroupHit
 * @property {Group} group
 * @property {number | null} tokens that would hit if it were the only group; null if the events do not determine it
 * @typedef {object} Answer under one salt
 * @property {string | null} salt as reported by the server
 * @property {number} known tokens of the prefix whose contents were stored at any time
 * @property {GroupHit[]} groups
 * @property {number | null} hit tokens that a request would hit now; null if it is unknown for all groups
 * @property {GroupHit | null} limit group with the shortest hit, if it limits the hit
 * @property {{medium: string, tokens: number}[]} outside tokens of the prefix cached in each medium
 * @property {"end" | "never" | "unkept" | "gone"} next why the hit ends: less than a block is left; the
 *   block was never stored; contents beyond the server's limit are not remembered; the block is evicted
 */

/**
 * Parse a list of token ids: numbers, a JSON array or a `/tokenize` response. Returns null for anything else.
 * @param {string} text @returns {number[] | null}
 */
export function idsIn(text) {
  /** @type {unknown} */
  let found;
  try {
    found = JSON.parse(text);
  } catch {
    const parts = text.trim().split(/[\s,;]+/);
    found = parts.every((part) => /^\d+$/.test(part)) ? parts.map(Number) : null;
  }
  if (typeof found === "number") found = [found];
  if (found && typeof found === "object" && !Array.isArray(found)) {
    const { tokens, token_ids: ids, prompt_token_ids: prompt } = /** @type {Record<string, unknown>} */ (found);
    found = tokens ?? ids ?? prompt;
  }
  if (!Array.isArray(found) || !found.length) return null;
  return found.every((one) => Number.isSafeInteger(one) && one >= 0) ? found : null;
}

/**
 * Return an answer without a salt, and one for each salt under which the beginning of the prompt is known.
 * @param {Chains} chains of a rank @param {number} count tokens of the prompt
 * @returns {Answer[]}
 */
export function cachedFor({ groups, chains, unkept }, count) {
  const salts = new Set([null, ...chains.map(({ salt }) => salt)]);
  return [...salts].flatMap((salt) => {
    const chainsBySize = new Map(chains.filter((one) => one.salt === salt).map(({ size, links }) => [size, links]));
    const answer = answerUnder(groups, chainsBySize, count, salt);
    if (answer.next === "never" && unkept) answer.next = "unkept";
    return salt === null || answer.known > 0 ? [answer] : [];
  });
}

/**
 * @param {Group[]} groups @param {Map<number, Link[]>} chains by size @param {number} count @param {string | null} salt
 * @returns {Answer}
 */
function answerUnder(groups, chains, count, salt) {
  const smallest = Math.min(...groups.map(({ size }) => size || Number.POSITIVE_INFINITY));
  const finest = chains.get(smallest) ?? [];
  const maxHit = count - 1; // the last token is always computed
  const endsByGroup = groups.map((group) => {
    const chain = chains.get(group.size) ?? finest;
    return { group, ends: chain.length ? endsOf(group, chain, maxHit) : [] };
  });
  const determined = endsByGroup.flatMap(({ group, ends }) => (ends ? [{ group, ends: new Set(ends) }] : []));
  const candidates = [...new Set(determined.flatMap(({ ends }) => [...ends]))].sort((a, b) => b - a);
  const hit = determined.length ? (candidates.find((end) => determined.every(({ ends }) => ends.has(end))) ?? 0) : null;
  const answers = endsByGroup.map(({ group, ends }) => ({ group, tokens: ends && Math.max(0, ...ends) }));
  const longest = Math.max(0, ...answers.map(({ tokens: own }) => own ?? 0));
  const shortest = answers
    .filter(({ tokens: own }) => own !== null)
    .sort((a, b) => Number(a.tokens) - Number(b.tokens));
  return {
    salt,
    known: finest.at(-1)?.end ?? 0,
    groups: answers,
    hit,
    limit: hit !== null && hit < longest ? (shortest[0] ?? null) : null,
    outside: outsideOf(finest),
    next: nextOf(groups, finest, count - 1 - (hit ?? 0) < (Number.isFinite(smallest) ? smallest : 1), hit ?? 0),
  };
}

/**
 * Return the token counts at which a hit may end for `group` alone. Returns null if the events do not determine it.
 * @param {Group} group @param {Link[]} chain @param {number} maxHit
 * @returns {number[] | null}
 */
function endsOf(group, chain, maxHit) {
  const kind = group.kind ?? "full_attention";
  const isCached = chain.map(({ groups }) => groups.includes(group.id));
  const ends = chain.map(({ end }) => end);
  const isAllowed = (/** @type {number} */ i) => ends[i] <= maxHit;
  if (kind === "mamba") {
    // For a group that caches only some of its blocks, the events do not state which tokens a block holds. Its hashes
    // equal those of another group's blocks that end at the same token.
    if (!group.size && !chain.some(({ ever }) => ever.includes(group.id))) return null;
    return ends.filter((_, i) => isCached[i] && isAllowed(i));
  }
  if (!group.size) return null;
  if (kind.startsWith("sliding_window") && group.window) {
    const needed = Math.ceil((group.window - 1) / group.size);
    return ends.filter((_, i) => isAllowed(i) && isCached.slice(Math.max(0, i + 1 - needed), i + 1).every(Boolean));
  }
  if (kind === "chunked_local_attention") return null;
  const first = isCached.indexOf(false);
  return ends.slice(0, first < 0 ? ends.length : first).filter((_, i) => isAllowed(i));
}

/** @param {Link[]} chain */
function outsideOf(chain) {
  const all = new Set(chain.flatMap(({ media }) => media));
  return [...all].sort().map((medium) => {
    const first = chain.findIndex(({ media }) => !media.includes(medium));
    return { medium, tokens: (first < 0 ? chain.at(-1) : chain[first - 1])?.end ?? 0 };
  });
}

/**
 * @param {Group[]} groups @param {Link[]} chain @param {boolean} isLast fewer tokens are left than fill a block
 * @param {number} hit @returns {Answer["next"]}
 */
function nextOf(groups, chain, isLast, hit) {
  if (isLast) return "end";
  const next = chain.find(({ end }) => end > hit);
  if (!next) return "never";
  return groups.every(({ id }) => next.groups.includes(id)) ? "end" : "gone";
}
