// Present view: only stage, pool and sentence are shown; a remote control steps through scenes.

import { viewSub } from "../state/playhead.js";
import { openView, settings } from "../state/settings.js";
import { following, numRecords, viewIndex } from "../state/store.js";
import * as playback from "./playback.js";
import { playScene, scene, sceneEnd, scenes } from "./restart.js";

export const isPresenting = () => settings.viewMode.value === "present";

/** Toggle between the present view and the workspace, with the same record and selection. */
export const toggle = () => openView(isPresenting() ? "workspace" : "present");

/** Play the next or previous scene; without a current scene, the first or last one. @param {number} direction */
export function toScene(direction) {
  const all = scenes.peek();
  const now = scene.peek();
  const at = now ? all.indexOf(now) : direction > 0 ? -1 : all.length;
  const target = all[at + direction];
  return target && playScene(target);
}

/**
 * Handle a remote control's "next": take a step; at the end of a scene in the present view, play the next scene. At a
 * lesson's question, in its sandbox and at its end, continue the lesson.
 */
export async function next() {
  if (isPresenting() && following.peek() && sceneEnd.peek() !== null) return toScene(1);
  const isNewest = viewIndex.peek() >= numRecords.peek() - 1 && viewSub.peek() === null;
  if (settings.viewMode.peek() === "lesson" && isNewest && (await (await import("./lesson_next.js")).lessonNext()))
    return playback.stop();
  return playback.next();
}
