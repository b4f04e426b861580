// Present mode for presenting: only stage, pool and sentence, controlled scene by scene with a remote.

import { openView, settings } from "../state/settings.js";
import { following } from "../state/store.js";
import * as playback from "./playback.js";
import { playScene, scene, sceneEnd, scenes } from "./restart.js";

export const isPresenting = () => settings.viewMode.value === "present";

/** Toggle between the present view and the workspace; record and selection are kept. */
export const toggle = () => openView(isPresenting() ? "workspace" : "present");

/** Play the next or previous scene; outside of a scene, the first or last one. @param {number} direction */
export function toScene(direction) {
  const all = scenes.peek();
  const now = scene.peek();
  const at = now ? all.indexOf(now) : direction > 0 ? -1 : all.length;
  const wanted = all[at + direction];
  return wanted && playScene(wanted);
}

/** Handle a remote's "next": take a step; at the end of a scene in the present view, play the next scene. */
export function next() {
  const over = isPresenting() && following.peek() && sceneEnd.peek() !== null;
  return over ? toScene(1) : playback.next();
}
