// From which length on a state takes less than keys and values would. Pure.

/**
 * The number of tokens at which the states of a model weigh as much as keys and values in the same layers would, each
 * layer's as those of the layers with keys; and the bytes a token that all layers would then take. Null where no layer
 * keeps a state instead of keys.
 * @param {Pick<import("./trace.js").Header, "model" | "kv_bytes_per_token">} header
 */
export function crossing({ model, kv_bytes_per_token: perToken }) {
  const { layer_kinds: kinds = [], num_layers: withKeys, state_bytes: state = 0 } = model;
  const instead = kinds.filter((kind) => kind === "state").length;
  if (!instead || !perToken) return null;
  const each = perToken / withKeys;
  return { tokens: Math.ceil(state / (instead * each)), perToken: perToken + instead * each };
}
