// Length from which a state is smaller than keys and values. Pure.

/**
 * Return the number of tokens at which the states of a model take as many bytes as keys and values in the same layers
 * would, with the size of the layers that have keys; and the bytes per token if all layers had keys. Null if no layer
 * has a state instead of keys.
 * @param {Pick<import("./trace.js").Header, "model" | "kv_bytes_per_token">} header
 */
export function crossing({ model, kv_bytes_per_token: perToken }) {
  const { layer_kinds: kinds = [], num_layers: withKeys, state_bytes: state = 0 } = model;
  const instead = kinds.filter((kind) => kind === "state").length;
  if (!instead || !perToken) return null;
  const each = perToken / withKeys;
  return { tokens: Math.ceil(state / (instead * each)), perToken: perToken + instead * each };
}
