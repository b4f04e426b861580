// A race: one prompt in several lanes in lockstep. A lane is a model and engine settings; there are four sets of lanes.

import { computed } from "../../../vendor/signals/signals.js";
import { language } from "../../i18n/language.js";
import { valueText } from "../../i18n/options.js";
import { t } from "../../i18n/words.js";
import { Lockstep } from "../../runs/lockstep.js";
import { offeredOf } from "../../state/options.js";
import { settings } from "../../state/settings.js";

/**
 * @typedef {import("../../state/settings.js").OwnValues["lanes"]} SetName
 * @typedef {{id: string, strategy: string, model: string | null, drafts?: string}} LaneOf `model` null: the page's
 *   model; `drafts`: the speculative_config
 */

/** @type {(...names: string[]) => LaneOf[]} */
const strategies = (...names) => names.map((id) => ({ id, strategy: id, model: null }));

/**
 * `strategies`: no cache, contiguous reservation and paging. `caches`: ways to store K and V: concatenation, the two
 * caches of transformers, pages. `models`: the bundled models, of which three differ only in their KV heads and one is
 * hybrid. `drafts`: one token per step, n-gram drafts, drafts by a model.
 * @type {Record<SetName, LaneOf[]>}
 */
export const SETS = {
  strategies: strategies("none", "contiguous", "paged"),
  caches: strategies("concat", "dynamic", "static", "paged"),
  drafts: ["undrafted", "ngram", "draft-model"].map((id, i) => ({
    id,
    strategy: "paged",
    model: null,
    drafts: offeredOf("speculative_config")[i - 1],
  })),
  models: ["bundled-mha", "bundled-gqa", "bundled-mqa", "bundled-hybrid"].map((id) => ({
    id,
    strategy: "paged",
    model: id,
  })),
};

/** The current set. */
export const racing = computed(() => settings.lanes.value);

/** Ids of the current set's lanes. */
export const lanes = computed(() => SETS[racing.value].map(({ id }) => id));

export const race = new Lockstep(
  "race",
  SETS.strategies.map(({ id }) => id),
  { recorded: (id) => `race-${language.value}-${id}` },
);

/** Logs of the current set's lanes, or null before the first run and if the logs are of another set. */
export const logs = computed(() => {
  const spec = race.spec.value;
  return !spec || Object.keys(spec.configs).join() === lanes.value.join() ? race.logs.value : null;
});

/** Names of the lanes in order. */
export const names = () =>
  lanes.value.map((id) => (racing.value === "caches" ? valueText("strategy", id) : t(`race.${id}`)));
