// Models of other sizes (engine/accounting/models.toml), for estimating what the run would take as one of them. They
// are embedded in the page's HTML, including single-file pages.

import { tables } from "./options.js";

/**
 * `latent_dim`: width of MLA's latent vector, which replaces K and V of heads if not 0. `dated`: ISO 8601.
 * @typedef {{
 *   id: string, name: string, num_layers: number, num_kv_heads: number, head_dim: number, latent_dim: number,
 *   element_bytes: number, kv_bytes_per_token: number, source: string, dated: string | null, weights_bytes: number,
 *   fit: {card: string, gpus: number, tokens: number} | null
 * }} ModelPreset
 */

/** @type {ModelPreset[]} */
export const PRESETS = tables.models ?? [];

/**
 * Return the factors whose product is the bytes of a token's K and V.
 * @param {ModelPreset} preset
 */
export const factorsOf = ({ num_layers, num_kv_heads, head_dim, latent_dim, element_bytes }) =>
  latent_dim ? [num_layers, latent_dim, element_bytes] : [2, num_layers, num_kv_heads, head_dim, element_bytes];
