// Cached part of a prompt on a monitored server, derived from its cache events per token content and cache group.

/** @import {Chains, Group, Link} from "../../core/observed_cache.js" */

/**
 * @typedef {object} OfGroup
 * @property {Group} group
 * @property {number | null} tokens that it could provide if it were the only group; null: unknown from the events
 * @typedef {object} Answer under one salt
 * @property {string | null} salt as reported by the server
 * @property {number} known tokens of the prefix whose contents were ever stored
 * @property {OfGroup[]} groups
 * @property {number | null} hit tokens that a request would hit now; null: unknown for all groups
 * @property {OfGroup | null} limit group that ends the hit first
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
 * Return one answer without a salt and one for each salt under which the beginning of the prompt is known.
 * @param {Chains} chains of a rank @param {number} count tokens of the prompt
 * @returns {Answer[]}
 */
export function cachedFor({ groups, chains, unkept }, count) {
  const salts = new Set([null, ...chains.map(({ salt }) => salt)]);
  return [...salts].flatMap((salt) => {
    const own = new Map(chains.filter((one) => one.salt === salt).map(({ size, links }) => [size, links]));
    const answer = under(groups, own, count, salt);
    if (answer.next === "never" && unkept) answer.next = "unkept";
    return salt === null || answer.known > 0 ? [answer] : [];
  });
}

/**
 * @param {Group[]} groups @param {Map<number, Link[]>} chains by size @param {number} count @param {string | null} salt
 * @returns {Answer}
 */
function under(groups, chains, count, salt) {
  const smallest = Math.min(...groups.map(({ size }) => size || Number.POSITIVE_INFINITY));
  const finest = chains.get(smallest) ?? [];
  const most = count - 1; // the last token is always computed
  const reached = groups.map((group) => {
    const chain = chains.get(group.size) ?? finest;
    return { group, ends: chain.length ? endsOf(group, chain, most) : [] };
  });
  const saying = reached.flatMap(({ group, ends }) => (ends ? [{ group, ends: new Set(ends) }] : []));
  const all = [...new Set(saying.flatMap(({ ends }) => [...ends]))].sort((a, b) => b - a);
  const hit = saying.length ? (all.find((end) => saying.every(({ ends }) => ends.has(end))) ?? 0) : null;
  const answers = reached.map(({ group, ends }) => ({ group, tokens: ends && Math.max(0, ...ends) }));
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
 * @param {Group} group @param {Link[]} chain @param {number} most
 * @returns {number[] | null}
 */
function endsOf(group, chain, most) {
  const kind = group.kind ?? "full_attention";
  const there = chain.map(({ groups }) => groups.includes(group.id));
  const ends = chain.map(({ end }) => end);
  const may = (/** @type {number} */ i) => ends[i] <= most;
  if (kind === "mamba") {
    // For a group that caches only some of its blocks, the events do not state which tokens a block holds. Its hashes
    // equal those of another group's blocks that end at the same token.
    if (!group.size && !chain.some(({ ever }) => ever.includes(group.id))) return null;
    return ends.filter((_, i) => there[i] && may(i));
  }
  if (!group.size) return null;
  if (kind.startsWith("sliding_window") && group.window) {
    const needed = Math.ceil((group.window - 1) / group.size);
    return ends.filter((_, i) => may(i) && there.slice(Math.max(0, i + 1 - needed), i + 1).every(Boolean));
  }
  if (kind === "chunked_local_attention") return null;
  const first = there.indexOf(false);
  return ends.slice(0, first < 0 ? ends.length : first).filter((_, i) => may(i));
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
