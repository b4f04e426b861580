// Block groups in words: which layers, and which keys they keep.

import { hasSiblings, isOfStates } from "../core/groups.js";
import { instanceName } from "../core/instances.js";
import { bytesText, t } from "./words.js";

const NAMED = 6; // more layers than these are a number; all of them are on hover

/**
 * "layers 1, 3, 5", or how many they are.
 * @param {number[]} layers
 */
export function layersText(layers) {
  if (layers.length > NAMED) return t("group.many", { n: layers.length });
  return t(layers.length === 1 ? "group.layer" : "group.layers", { layers: layers.join(t("join.list")) });
}

/**
 * Every layer by its number.
 * @param {number[]} layers
 */
export const allLayers = (layers) => t("group.layers", { layers: layers.join(", ") });

/**
 * What a group's layers keep: all keys, a window of them, or a state.
 * @param {Pick<import("../core/groups.js").Group, "window" | "sinks"> & {state_bytes?: number}} group
 */
export function keysText({ window, sinks, state_bytes = 0 }) {
  if (isOfStates({ state_bytes })) return t("group.state", { bytes: bytesText(state_bytes) });
  if (window === null) return t("group.all");
  return t(sinks ? "group.window_sinks" : "group.window", { window, sinks });
}

/**
 * The shortest name of a group beside another.
 * @param {Pick<import("../core/groups.js").Group, "window" | "state_bytes">} group
 */
export function shortKeys({ window, state_bytes }) {
  if (isOfStates({ state_bytes })) return t("group.short.state");
  return t(window === null ? "group.short.all" : "group.short.window", { window });
}

/** @param {import("../core/groups.js").Group} group */
export function groupName(group) {
  const layers = isOfStates(group) ? t("group.with_state") : layersText(group.layers);
  return t("group.title", { layers, keys: keysText(group) });
}

/**
 * What a group is called beside the others of a run: its instance, where there are several, and then in short which
 * keys it keeps, where others of that instance keep others; else its layers, where these are not all.
 * @param {import("../core/trace.js").Header | undefined} header @param {import("../core/groups.js").Group[]} groups
 * @param {number} at
 */
export function groupTitle(header, groups, at) {
  const instance = header ? instanceName(header, groups[at].instance) : "";
  if (!hasSiblings(groups, at)) return instance;
  return instance ? `${instance} · ${shortKeys(groups[at])}` : groupName(groups[at]);
}

/**
 * A sentence about some layers' blocks.
 * @param {number[]} layers @param {string} text
 */
export const inLayers = (layers, text) => t("group.in", { layers: layersText(layers), text });
