// Shape of the keys and values of a model's layers: number and width of heads, which may differ by layer. Pure.

/** @typedef {import("./trace.js").Header["model"]} Model */
/** @typedef {{num_kv_heads: number, head_dim: number, v_head_dim: number}} KvShape */

/** @param {Model} model @param {number} layer @returns {KvShape} */
export function kvShapeOf(model, layer) {
  const own = model.layer_shapes?.[layer];
  if (!own) return model;
  const [num_kv_heads, head_dim, v_head_dim] = own;
  return { num_kv_heads, head_dim, v_head_dim };
}

/**
 * Return the KV head that a query head of a layer reads.
 * @param {Model} model
 * @param {number} layer
 * @param {number} head
 */
export const kvHeadOf = (model, layer, head) =>
  Math.floor((head * kvShapeOf(model, layer).num_kv_heads) / model.num_heads);

/** Return the indices of a layer's KV heads. @param {Model} model @param {number} layer */
export const kvHeadsOf = (model, layer) =>
  Array.from({ length: kvShapeOf(model, layer).num_kv_heads }, (_, head) => head);

/**
 * Return the layers grouped by shape, in the order of their first layers.
 * @param {Model} model
 * @param {number[]} layers empty: all
 */
export function kvKinds(model, layers) {
  /** @type {Map<string, KvShape & {num_layers: number}>} */
  const found = new Map();
  for (const layer of layers.length ? layers : Array.from({ length: model.num_layers }, (_, i) => i)) {
    const { num_kv_heads, head_dim, v_head_dim } = kvShapeOf(model, layer);
    const key = `${num_kv_heads}/${head_dim}/${v_head_dim}`;
    const kind = found.get(key);
    if (kind) kind.num_layers += 1;
    else found.set(key, { num_layers: 1, num_kv_heads, head_dim, v_head_dim });
  }
  return [...found.values()];
}

/**
 * Return a size of the layers: one number, or a text if they differ.
 * @param {Model} model
 * @param {keyof KvShape} name
 */
export function sizeOf(model, name) {
  const sizes = [...new Set(kvKinds(model, []).map((kind) => kind[name]))];
  return sizes.length > 1 ? sizes.join(" / ") : sizes[0];
}

/** Return the number of query heads per KV head; 1 if it differs by layer. @param {Model} model */
export function groupOf(model) {
  const heads = sizeOf(model, "num_kv_heads");
  return typeof heads === "number" ? model.num_heads / heads : 1;
}
