// Player of the race, driven by the page's transport.

import { computed } from "../../../vendor/signals/signals.js";
import { play } from "../../control/playback.js";
import { isSame } from "../../runs/lockstep.js";
import { LanesPlayer } from "../../runs/player.js";
import { lessonRace, raceIsDue } from "../../state/lessons.js";
import { draft } from "../../state/prompts.js";
import { wantedConfig, wantedModel, wantedSampling } from "../../state/run_settings.js";
import { raceAt } from "./figures.js";
import { lanes, logs, race, racing, SETS } from "./model.js";
import { raceSentence } from "./words.js";

/** All lanes at the shown step, or null before the first run. */
export const now = computed(() => (logs.value ? raceAt(logs.value, player.shownStep.value) : null));

export const player = new LanesPlayer(race, { spec, sentence: () => raceSentence(now.value) });

player.chosen.value = lanes.value.length - 1;

/** Start the lesson's lanes when the learner reaches them, and reset the lanes of another request. */
export function beginLessons() {
  const current = race.spec.peek();
  const isDue = raceIsDue.peek();
  if (!lessonRace.peek()) return;
  if (race.recorded && isDue && !race.logs.peek()) return; // recordings are still loading
  raceIsDue.value = false;
  if (isDue && race.recorded) return play();
  if (isDue || (current && !isSame(spec(), current))) changeLanes();
  if (isDue) player.run();
}

/** Start the runs of another set, with its last lane on stage. */
export function changeLanes() {
  race.reset();
  player.chosen.value = lanes.value.length - 1;
  player.begin();
}

/**
 * Return the request of all lanes: the setup's prompt and sampling, with one sample and default batching, or the
 * lesson's.
 * @returns {import("../../runs/lockstep.js").RunSpec}
 */
function spec() {
  const lesson = race.recorded ? null : lessonRace.value; // recorded lanes have a fixed prompt
  const { block_size, num_blocks, kv_cache_dtype } = lesson ? lesson.config : wantedConfig();
  const { n, ...sampling } = lesson ? lesson.sampling : wantedSampling();
  const config = { block_size, num_blocks, count_copies: true, kv_cache_dtype: kv_cache_dtype ?? "auto" };
  if (racing.value === "caches") config.kv_cache_dtype = "auto"; // transformers' caches store the model's dtype
  const set = SETS[racing.value];
  const configs = Object.fromEntries(
    set.map(({ id, strategy, drafts }) => [id, { ...config, strategy, speculative_config: drafts ?? null }]),
  );
  const models = Object.fromEntries(set.map(({ id, model }) => [id, model ?? lesson?.model ?? wantedModel()]));
  return { prompts: [lesson?.prompt ?? draft.value], sampling, configs, models };
}
