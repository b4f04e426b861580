// Geometry of the small multiples: one cell for each layer and query head, heads that share a KV head close together.
// Pure.

const GUTTER = 18; // px for the layers' numbers
const BRACKET = 16; // px for the KV heads
const GAP = 2;
const GROUP_GAP = 8;
const LEAST = 15; // px of a cell: more heads or layers than fit come in pages
const MOST = 64;
const STRIP = 30; // px of a cell's height at most when it shows one row

/** @typedef {ReturnType<typeof headsLayout>} HeadsLayout */

/**
 * The cells in width × height: the page of `heads` and `layers` that holds the chosen ones, `across` × `down` px of a
 * cell, `x(head)` and `y(layer)`, and `brackets`: {kv, left, width} of each KV head that query heads share. `square`: a
 * cell shows a matrix, not a row.
 *
 * @param {{num_heads: number, num_kv_heads: number, num_layers: number}} model
 * @param {{layer: number, head: number}} chosen
 * @param {number} width
 * @param {number} height
 * @param {boolean} square
 */
export function headsLayout(model, chosen, width, height, square) {
  const group = model.num_heads / model.num_kv_heads;
  const spaced = group > 1 ? GROUP_GAP : GAP;
  /** @param {number} heads */
  const gaps = (heads) => (heads - 1) * GAP + Math.floor((heads - 1) / group) * (spaced - GAP);
  let count = model.num_heads;
  while (count > 1 && gaps(count) + count * LEAST > width - GUTTER) count -= count > group ? group : 1;
  const top = group > 1 ? BRACKET : 0;
  const lines = Math.max(1, Math.min(model.num_layers, Math.floor((height - top + GAP) / (LEAST + GAP))));
  let across = Math.min(MOST, Math.floor((width - GUTTER - gaps(count)) / count));
  let down = Math.min(MOST, Math.floor((height - top + GAP) / lines) - GAP);
  if (square) [across, down] = [Math.min(across, Math.round(down * 1.5)), Math.min(down, across)];
  else down = Math.min(down, STRIP);
  [across, down] = [Math.max(4, across), Math.max(4, down)];
  /** @type {(of: number, size: number, total: number) => number[]} */
  const page = (of, size, total) => {
    const first = Math.floor(of / size) * size;
    return Array.from({ length: Math.min(size, total - first) }, (_, i) => first + i);
  };
  const heads = page(chosen.head, count, model.num_heads);
  const layers = page(chosen.layer, lines, model.num_layers);
  /** @param {number} head */
  const kvOf = (head) => Math.floor(head / group);
  /** @param {number} head */
  const x = (head) => GUTTER + (head - heads[0]) * (across + GAP) + (kvOf(head) - kvOf(heads[0])) * (spaced - GAP);
  /** @param {number} layer */
  const y = (layer) => top + (layer - layers[0]) * (down + GAP);
  /** @type {{kv: number, left: number, width: number}[]} */
  const brackets = [];
  for (const head of group > 1 ? heads : []) {
    let last = brackets.at(-1);
    if (last?.kv !== kvOf(head)) {
      last = { kv: kvOf(head), left: x(head), width: 0 };
      brackets.push(last);
    }
    last.width = x(head) + across - last.left;
  }
  return { group, heads, layers, across, down, x, y, brackets };
}
