// Presenting to a room: stage, pool and sentence alone, from scene to scene by a remote's keys.

import { markPlace, settings } from "../state/settings.js";
import { following } from "../state/store.js";
import { playScene, scene, sceneEnd, scenes } from "./anew.js";
import * as playback from "./playback.js";

export const inRoom = () => settings.distance.value === "room";

/** To the room and back to everything; the moment and what is held stay. */
export function toggle() {
  markPlace();
  settings.distance.value = inRoom() ? "bench" : "room";
}

/**
 * Play the scene after the one that is played, or before it; from outside of a scene the first or the last.
 *
 * @param {number} direction
 */
export function toScene(direction) {
  const all = scenes.peek();
  const now = scene.peek();
  const at = now ? all.indexOf(now) : direction > 0 ? -1 : all.length;
  const wanted = all[at + direction];
  return wanted && playScene(wanted);
}

/** What a remote's "next" means: a step; in a room, at the end of a scene, the next one. */
export function next() {
  const over = inRoom() && following.peek() && sceneEnd.peek() !== null;
  return over ? toScene(1) : playback.next();
}
