// Models of other sizes as the server's file has them (engine/accounting/models.toml): what the run would take as one
// of them. They stand in the page's HTML, in a page of one file too.

import { tables } from "./options.js";

/**
 * `latent_dim`: where it is not 0, MLA's one vector of that width in place of K and V of heads. `dated`: ISO 8601.
 * @typedef {{
 *   id: string, name: string, num_layers: number, num_kv_heads: number, head_dim: number, latent_dim: number,
 *   element_bytes: number, kv_bytes_per_token: number, source: string, dated: string | null, weights_bytes: number,
 *   fit: {card: string, gpus: number, tokens: number} | null
 * }} ModelPreset
 */

/** @type {ModelPreset[]} */
export const PRESETS = tables.models ?? [];

/**
 * The factors whose product is the bytes of a token's K and V.
 * @param {ModelPreset} preset
 */
export const factorsOf = ({ num_layers, num_kv_heads, head_dim, latent_dim, element_bytes }) =>
  latent_dim ? [num_layers, latent_dim, element_bytes] : [2, num_layers, num_kv_heads, head_dim, element_bytes];
