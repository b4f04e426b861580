// What an action of a lesson added to its run is played, as soon as it is here.

import { lessonRace, opened, raceIsDue } from "../state/lessons.js";
import { own } from "../state/run.js";
import { settings } from "../state/settings.js";
import * as store from "../state/store.js";
import { play } from "./playback.js";

const LONGEST = 8; // seconds that what one action did is played for

/** Steps a second at which `count` are over soon, and no faster. @param {number} count */
const speedFor = (count) => Math.max(2, Math.ceil(count / LONGEST));

/**
 * Play what an action added, once it is here.
 *
 * @param {number} before records that there were
 */
export async function playAdded(before) {
  const now = opened.peek();
  const done = now?.items.filter((item) => item.kind === "do" && item.moment).at(-1);
  if (done?.kind !== "do" || !done.moment) return;
  const { moment, race } = done;
  if (race && race === lessonRace.peek()) {
    settings.speed.value = speedFor(Number(race.sampling.max_tokens) || 0);
    raceIsDue.value = true;
    return;
  }
  for (let i = 0; i < 200 && own.numRecords.peek() < moment.records; i++)
    await new Promise((resolve) => setTimeout(resolve, 25));
  const count = moment.records - before;
  if (count > 1 && before <= moment.records) {
    settings.speed.value = speedFor(count);
    play();
  } else store.backToLive();
}
