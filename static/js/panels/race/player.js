// The race as what the page shows and drives.

import { computed } from "../../../vendor/signals/signals.js";
import { LanesPlayer } from "../../runs/player.js";
import { draft } from "../../state/prompts.js";
import { wantedConfig, wantedSampling } from "../../state/run_settings.js";
import { raceAt } from "./figures.js";
import { race, STRATEGIES } from "./model.js";
import { raceSentence } from "./words.js";

/** All lanes at the step that is looked at; null before there are any. */
export const now = computed(() => (race.logs.value ? raceAt(race.logs.value, player.shownStep.value) : null));

export const player = new LanesPlayer(race, { wish, told: () => raceSentence(now.value) });

/**
 * What the three runs are asked: the setup's prompt and sampling, one sample each, the default batching.
 * @returns {import("../../runs/lockstep.js").Wish}
 */
function wish() {
  const { block_size, num_blocks, kv_cache_dtype } = wantedConfig();
  const { n, ...sampling } = wantedSampling();
  const config = { block_size, num_blocks, ...(kv_cache_dtype ? { kv_cache_dtype } : {}) };
  const configs = Object.fromEntries(STRATEGIES.map((strategy) => [strategy, { ...config, strategy }]));
  return { prompts: [draft.value], sampling, configs };
}
