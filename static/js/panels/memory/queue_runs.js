// The free queue, written short: neighbours in the queue whose ids follow each other become a run. Pure.

const SHORTEST = 3; // fewer neighbours stay single

/**
 * Ids from `first` to `last` that follow each other in the queue, going up or down by one, all of one kind.
 *
 * @template K
 * @typedef {{first: number, last: number, count: number, kind: K}} Run
 */

/**
 * The runs of `ids` in order; together they name every id once.
 *
 * @template K
 * @param {number[]} ids
 * @param {(id: number) => K} kindOf
 */
export function runsOf(ids, kindOf) {
  /** @type {Run<K>[]} */
  const runs = [];
  for (let i = 0; i < ids.length; ) {
    const kind = kindOf(ids[i]);
    const by = ids[i + 1] - ids[i];
    let end = i + 1;
    if (by === 1 || by === -1)
      while (end < ids.length && ids[end] - ids[end - 1] === by && kindOf(ids[end]) === kind) end++;
    const count = end - i >= SHORTEST ? end - i : 1;
    runs.push({ first: ids[i], last: ids[i + count - 1], count, kind });
    i += count;
  }
  return runs;
}
