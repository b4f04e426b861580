// Block groups in words: their layers and the keys they retain.

import { hasSiblings, isOfStates } from "../core/groups.js";
import { instanceName } from "../core/instances.js";
import { bytesText, t } from "./words.js";

/** @import {Group} from "../core/groups.js" */

const MAX_NAMED = 6; // more layers are given as a number, and listed on hover

/**
 * Return "layers 1, 3, 5", or their number; for an empty list, a name of the layers with a state.
 * @param {number[]} layers
 */
export function layersText(layers) {
  if (!layers.length) return t("group.with_state");
  if (layers.length > MAX_NAMED) return t("group.many", { n: layers.length });
  return t(layers.length === 1 ? "group.layer" : "group.layers", { layers: layers.join(t("join.list")) });
}

/** Return the numbers of all layers of a group. @param {Group} group */
export const allLayers = (group) =>
  isOfStates(group) ? t("group.with_state") : t("group.layers", { layers: group.layers.join(", ") });

/**
 * Return what a group's layers retain: all keys, a window of them, or a state.
 * @param {Pick<Group, "window" | "sinks"> & {state_bytes?: number}} group
 */
export function keysText({ window, sinks, state_bytes = 0 }) {
  if (isOfStates({ state_bytes })) return t("group.state", { bytes: bytesText(state_bytes) });
  if (window === null) return t("group.all");
  return t(sinks ? "group.window_sinks" : "group.window", { window, sinks });
}

/** Return the shortest name that distinguishes a group. @param {Pick<Group, "window" | "state_bytes">} group */
export function shortKeys({ window, state_bytes }) {
  if (isOfStates({ state_bytes })) return t("group.short.state");
  return t(window === null ? "group.short.all" : "group.short.window", { window });
}

/** @param {Group} group */
export function groupName(group) {
  return t("group.title", { layers: layersText(group.layers), keys: keysText(group) });
}

/**
 * Return a group's title among the groups of a run: its instance if there are several, and the retained keys if other
 * groups of that instance differ; without instances, its layers and keys.
 * @param {import("../core/trace.js").Header | undefined} header
 * @param {Group[]} groups
 * @param {number} at
 */
export function groupTitle(header, groups, at) {
  const instance = header ? instanceName(header, groups[at].instance) : "";
  if (!hasSiblings(groups, at)) return instance;
  return instance ? `${instance} · ${shortKeys(groups[at])}` : groupName(groups[at]);
}

/** Return a sentence about the blocks of some layers. @param {number[]} layers @param {string} text */
export const inLayers = (layers, text) => t("group.in", { layers: layersText(layers), text });
