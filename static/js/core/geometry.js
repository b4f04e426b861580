// Validation of headers. Mirrors engine/trace/geometry.py: same rules, same errors.

import { blockGroups } from "./groups.js";
import {
  MAX_ALL_BLOCKS,
  MAX_BLOCK_SIZE,
  MAX_BLOCKS,
  MAX_DIMENSIONS,
  MAX_GROUPS,
  MAX_HEADS,
  MAX_LAYERS,
} from "./limits.js";

/** @import {Header} from "./trace.js" */

/** Return the number of slots of a block. @param {Pick<Header, "engine">} header */
export const blockSize = ({ engine }) => Number(engine.block_size);

/** Error for a record that does not follow from the state before it, or for an invalid header. */
export class TraceStateError extends Error {}

/**
 * Return the pools that the header describes. Throws TraceStateError if the header is invalid.
 * @param {Header} header
 * @returns {{block_size: number, groups: import("./groups.js").Group[], swap_space: number,
 *   finished_kept: number | null}}
 */
export function geometry(header) {
  checkModel(header);
  const block_size = setting(header, "block_size", 1, MAX_BLOCK_SIZE);
  setting(header, "num_blocks", 1, header.block_groups?.length ? MAX_ALL_BLOCKS : MAX_BLOCKS);
  const groups = blockGroups(header);
  const numInstances = Math.max(header.instances?.length ?? 0, 1);
  if (header.block_groups?.length) checkGroups(header.block_groups, header.model.num_layers, numInstances);
  else if (numInstances > 1) refuse("the header has several instances, but no block_groups");
  const swapSpace = header.engine.swap_space;
  const swap_space = UNSET.has(swapSpace)
    ? 0
    : setting(header, "swap_space", 0, Math.floor(MAX_BLOCKS / groups.length));
  const finished_kept = header.finished_kept ?? null;
  if (finished_kept !== null && finished_kept < 0) refuse(`the header's finished_kept is ${finished_kept}`);
  return { block_size, groups, swap_space, finished_kept };
}

/** @type {Set<unknown>} */
const UNSET = new Set([undefined, null, 0, false, ""]);

/** @param {Header} header @param {string} name @param {number} min @param {number} max @returns {number} */
function setting(header, name, min, max) {
  const value = header.engine[name];
  if (typeof value !== "number" || !Number.isInteger(value) || value < min || value > max)
    refuse(
      `the header's engine.${name} must be a whole number from ${min} to ${max}, not ${String(value).slice(0, 80)}`,
    );
  return value;
}

/** Check all numbers against their limits, and the lengths of per-layer and per-head lists. @param {Header} header */
function checkModel({ model, kv_bytes_per_token: bytesEach }) {
  const limits = {
    num_layers: MAX_LAYERS,
    num_heads: MAX_HEADS,
    num_kv_heads: MAX_HEADS,
    head_dim: MAX_DIMENSIONS,
    v_head_dim: MAX_DIMENSIONS,
  };
  for (const name of /** @type {(keyof typeof limits)[]} */ (Object.keys(limits)))
    if (model[name] < 1 || model[name] > limits[name])
      refuse(`the header's model.${name} must be from 1 to ${limits[name]}, not ${model[name]}`);
  const { rope_dim: rope = 0, latent_dim: latent = 0 } = model;
  if (!(rope >= 0 && rope <= latent && latent <= MAX_DIMENSIONS))
    refuse(`the header's model.rope_dim ${rope} and latent_dim ${latent} must rise from 0 to ${MAX_DIMENSIONS}`);
  if (model.num_heads % model.num_kv_heads)
    refuse(
      `the header's model.num_heads ${model.num_heads} is not a multiple of model.num_kv_heads ${model.num_kv_heads}`,
    );
  for (const shape of model.layer_shapes ?? [])
    if (shape.length !== 3 || !shape.every((size) => size >= 1 && size <= MAX_DIMENSIONS) || model.num_heads % shape[0])
      refuse(`the header's model.layer_shapes has ${shape}; expected [KV heads, key dimension, value dimension]`);
  for (const name of /** @type {const} */ (["sliding_windows", "scalings", "softcaps", "sinks", "layer_shapes"])) {
    const count = model[name]?.length ?? 0;
    if (count !== model.num_layers && (count > 0 || name === "sliding_windows"))
      refuse(`the header's model.${name} has ${count} entries for ${model.num_layers} layers`);
  }
  (model.sinks ?? []).forEach((sinks, layer) => {
    if (sinks !== null && sinks.length !== model.num_heads)
      refuse(
        `the header's model.sinks of layer ${layer} has ${sinks.length} entries for ${model.num_heads} query heads`,
      );
  });
  for (const { layer, head } of model.heads ?? [])
    if (layer < 0 || layer >= model.num_layers || head < 0 || head >= model.num_heads)
      refuse(`the header's model.heads names head ${head} of layer ${layer}, which the model does not have`);
  if (bytesEach < 1) refuse(`the header's kv_bytes_per_token is ${bytesEach}`);
}

/**
 * Check that blocks are contiguous from 0, and that each instance contains each layer once.
 * @param {import("./trace.js").BlockGroup[]} groups
 * @param {number} numLayers
 * @param {number} numInstances
 */
function checkGroups(groups, numLayers, numInstances) {
  if (groups.length > MAX_GROUPS)
    refuse(`the header has ${groups.length} block groups, at most ${MAX_GROUPS} are allowed`);
  let next = 0;
  for (const { first_block: first, num_blocks: count } of groups) {
    if (first !== next || count < 1 || count > Math.min(MAX_BLOCKS, MAX_ALL_BLOCKS - first))
      refuse(`the header's block groups do not follow each other at block ${next}`);
    next += count;
  }
  const owners = groups.map((group) => group.instance ?? 0);
  if (owners.some((owner, i) => owner < (owners[i - 1] ?? 0)) || new Set(owners).size !== numInstances)
    refuse("the header's block_groups are not those of each of its instances, one after the other");
  for (let owner = 0; owner < numInstances; owner++) {
    const own = groups.filter((_, i) => owners[i] === owner);
    const layers = own.flatMap((group) => group.layers).sort((a, b) => a - b);
    if (layers.length !== numLayers || layers.some((layer, i) => layer !== i))
      refuse(`the header's block_groups have not each of the model's ${numLayers} layers once`);
  }
}

/** @param {string} message @returns {never} */
function refuse(message) {
  throw new TraceStateError(message);
}
