// With and without: the same prompt under three strategies, in step. Drawn from the lanes' own logs.

import { useEffect } from "../../../vendor/preact/hooks.js";
import { raced } from "../../control/tour.js";
import { html } from "../../kit/html.js";
import { LockstepControls, Sentence } from "../../runs/controls.js";
import { Nothing, useLanes } from "../../runs/room.js";
import { draft } from "../../state/prompts.js";
import { wantedConfig, wantedSampling } from "../../state/run_settings.js";
import { isSite } from "../../state/site.js";
import { connection } from "../../state/store.js";
import { t } from "../../tell/words.js";
import { RaceChart } from "./chart.js";
import { raceAt } from "./figures.js";
import { race, STRATEGIES } from "./model.js";
import { Proof } from "./proof.js";
import { Lanes } from "./table.js";
import { raceSentence, TimeNote } from "./words.js";

export function Panel() {
  useLanes(race);
  const steps = race.numSteps.value;
  useEffect(() => void (raced.value = steps), [steps]);
  if (connection.value === "replay" && !isSite) return html`<${Nothing} of="race" text=${t("race.replay")} />`;
  const logs = race.logs.value;
  race.numSteps.value; // the logs grow
  const now = logs ? raceAt(logs, race.shownStep.value) : null;
  return html`<div class="runs race" id="race" data-phase=${race.phase.value} data-step=${race.shownStep.value}>
    <${LockstepControls} lanes=${race} wish=${wish} />
    <${Sentence} lanes=${race} text=${raceSentence(now)} />
    <${Lanes} logs=${logs} now=${now} />
    <${Proof} now=${now} />
    <${RaceChart} logs=${logs} />
    <${TimeNote} logs=${logs} step=${race.shownStep.value} />
  </div>`;
}

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
