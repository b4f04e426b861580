// Block groups in words: which layers, and which keys they keep.

import { t } from "./words.js";

const NAMED = 6; // more layers than these are a number; all of them are on hover

/** "layers 1, 3, 5", or how many they are. */
export function layersText(layers) {
  if (layers.length > NAMED) return t("group.many", { n: layers.length });
  return t(layers.length === 1 ? "group.layer" : "group.layers", { layers: layers.join(t("join.list")) });
}

/** Every layer by its number. */
export const allLayers = (layers) => t("group.layers", { layers: layers.join(", ") });

/** The keys that a group's layers keep: all, or a window. */
export function keysText({ window, sinks }) {
  if (window === null) return t("group.all");
  return t(sinks ? "group.window_sinks" : "group.window", { window, sinks });
}

/** The shortest name of a group beside another. */
export const shortKeys = ({ window }) => t(window === null ? "group.short.all" : "group.short.window", { window });

export const groupName = (group) => t("group.title", { layers: layersText(group.layers), keys: keysText(group) });

/** A sentence about some layers' blocks. */
export const inLayers = (layers, text) => t("group.in", { layers: layersText(layers), text });
