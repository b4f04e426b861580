// The race as what the page shows and drives.

import { computed } from "../../../vendor/signals/signals.js";
import { LanesPlayer } from "../../runs/player.js";
import { draft } from "../../state/prompts.js";
import { wantedConfig, wantedModel, wantedSampling } from "../../state/run_settings.js";
import { raceAt } from "./figures.js";
import { lanes, logs, race, racing, SETS } from "./model.js";
import { raceSentence } from "./words.js";

/** All lanes at the step that is looked at; null before there are any. */
export const now = computed(() => (logs.value ? raceAt(logs.value, player.shownStep.value) : null));

export const player = new LanesPlayer(race, { wish, told: () => raceSentence(now.value) });

player.chosen.value = lanes.value.length - 1;

/** Another set of lanes: their runs begin, and the last of them is on the stage. */
export function changeLanes() {
  race.reset();
  player.chosen.value = lanes.value.length - 1;
  player.begin();
}

/**
 * What the runs are asked: the setup's prompt and sampling, one sample each, the default batching.
 * @returns {import("../../runs/lockstep.js").Wish}
 */
function wish() {
  const { block_size, num_blocks, kv_cache_dtype } = wantedConfig();
  const { n, ...sampling } = wantedSampling();
  const config = { block_size, num_blocks, count_copies: true, kv_cache_dtype: kv_cache_dtype ?? "auto" };
  if (racing.value === "caches") config.kv_cache_dtype = "auto"; // transformers' caches keep what the model hands them
  const set = SETS[racing.value];
  const configs = Object.fromEntries(set.map(({ id, strategy }) => [id, { ...config, strategy }]));
  const models = Object.fromEntries(set.map(({ id, model }) => [id, model ?? wantedModel()]));
  return { prompts: [draft.value], sampling, configs, models };
}
