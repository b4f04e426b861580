// Binary search.

/**
 * Return the lowest i in [0, count) for which the monotonic predicate `holds`; `count` if there is none.
 * @param {number} count
 * @param {(i: number) => boolean} holds
 */
export function lowest(count, holds) {
  let [low, high] = [0, count];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (holds(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}
