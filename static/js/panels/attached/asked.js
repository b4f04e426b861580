// What a watched server has cached for a prompt, as far as its events say: by the tokens of its contents, by group.

import { mediaOf, stands } from "./standing.js";

/**
 * @typedef {import("./standing.js").Standings} Standings
 * @typedef {import("./standing.js").Group} Group
 * @typedef {{hash: string, end: number}} Link of a chain; `end`: tokens up to its own last
 * @typedef {object} OfGroup
 * @property {Group} group
 * @property {number | null} tokens that it could give a request that needs no other group; null: the events do not say
 * @typedef {object} Answer under one salt
 * @property {string | null} salt as the server said it
 * @property {number} known tokens of the beginning whose contents were ever named
 * @property {OfGroup[]} groups
 * @property {number | null} hit tokens that a request could take now; null: no group says
 * @property {OfGroup | null} limit the group that ends it before the others would
 * @property {{medium: string, tokens: number}[]} outside tokens of the beginning that stand there
 * @property {"end" | "never" | "gone"} next why it ends there: less than a block is left, such a block was never named,
 *   or it is gone
 */

/**
 * The ids that a text lists: numbers, a JSON array, or what `/tokenize` answered; null: it is something else.
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
 * An answer for no salt, and one for each under which the prompt's beginning is known.
 * @param {Standings} rank @param {import("../../core/cached_contents.js").Contents} contents @param {number[]} tokens
 * @param {number} index of the record after which
 * @returns {Answer[]}
 */
export function cachedFor(rank, contents, tokens, index) {
  const salts = new Set(rank.roots.filter((root) => root.index <= index).map(({ salt }) => salt));
  const found = [null, ...[...salts].filter((salt) => salt !== null)].map((salt) =>
    under(rank, contents, tokens, index, salt),
  );
  return found.filter(({ salt, known }) => salt === null || known > 0);
}

/**
 * @param {Standings} rank @param {import("../../core/cached_contents.js").Contents} contents @param {number[]} tokens
 * @param {number} index @param {string | null} salt @returns {Answer}
 */
function under(rank, contents, tokens, index, salt) {
  const groups = [...rank.groups.values()];
  const sizes = [...new Set(groups.map(({ size }) => size).filter(Boolean))].sort((a, b) => a - b);
  const chains = new Map(sizes.map((size) => [size, chainOf(contents, tokens, index, salt, size)]));
  const finest = chains.get(sizes[0]) ?? [];
  const most = tokens.length - 1; // the last token is always computed
  const reached = groups.map((group) => {
    const chain = chains.get(group.size) ?? finest;
    return { group, ends: chain.length ? endsOf(rank, group, chain, index, most) : [] };
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
    outside: outsideOf(rank, finest, index),
    next: nextOf(rank, finest, tokens.length, sizes[0] ?? 0, hit ?? 0, index),
  };
}

/**
 * The contents that the tokens are, one after the other, as far as they were ever named.
 * @param {import("../../core/cached_contents.js").Contents} contents @param {number[]} tokens @param {number} index
 * @param {string | null} salt @param {number} size @returns {Link[]}
 */
function chainOf(contents, tokens, index, salt, size) {
  /** @type {Link[]} */
  const chain = [];
  for (let end = size; end <= tokens.length; end += size) {
    const content = contents.after(chain.at(-1)?.hash ?? null, salt, tokens.slice(end - size, end));
    if (!content || content.record > index) break;
    chain.push({ hash: content.hash, end });
  }
  return chain;
}

/**
 * Where a hit may end for a group alone, in tokens; null: the events do not say it of such a group.
 * @param {Standings} rank @param {Group} group @param {Link[]} chain @param {number} index @param {number} most
 * @returns {number[] | null}
 */
function endsOf(rank, group, chain, index, most) {
  const kind = group.kind ?? "full_attention";
  const there = chain.map(({ hash }) => stands(rank, hash, group.id, index));
  const ends = chain.map(({ end }) => end);
  const may = (/** @type {number} */ i) => ends[i] <= most;
  if (kind === "mamba") {
    // of a group that keeps only some of its blocks the events do not say whose the tokens are, but its hashes are
    // those of the blocks of another group that end there
    if (!group.size && !chain.some(({ hash }) => rank.byHash.get(hash)?.some((one) => one.group === group)))
      return null;
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

/** @param {Standings} rank @param {Link[]} chain @param {number} index */
function outsideOf(rank, chain, index) {
  const media = new Set(chain.flatMap(({ hash }) => mediaOf(rank, hash, index)));
  return [...media].sort().map((medium) => {
    const first = chain.findIndex(({ hash }) => !mediaOf(rank, hash, index).includes(medium));
    return { medium, tokens: (first < 0 ? chain.at(-1) : chain[first - 1])?.end ?? 0 };
  });
}

/**
 * @param {Standings} rank @param {Link[]} chain @param {number} count tokens of the prompt @param {number} size
 * @param {number} hit @param {number} index @returns {Answer["next"]}
 */
function nextOf(rank, chain, count, size, hit, index) {
  if (count - 1 - hit < Math.max(1, size)) return "end";
  const next = chain.find(({ end }) => end > hit);
  if (!next) return "never";
  const isThere = [...rank.groups.keys()].every((group) => stands(rank, next.hash, group, index));
  return isThere ? "end" : "gone";
}
