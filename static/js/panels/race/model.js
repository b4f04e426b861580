// A race: one prompt in several lanes, in lockstep. A lane is settings of the engine and a model; there are four sets
// of them.

import { computed } from "../../../vendor/signals/signals.js";
import { Lockstep } from "../../runs/lockstep.js";
import { offeredOf } from "../../state/options.js";
import { settings } from "../../state/settings.js";
import { language } from "../../tell/language.js";
import { valueText } from "../../tell/options.js";
import { t } from "../../tell/words.js";

/**
 * @typedef {import("../../state/settings.js").OwnValues["lanes"]} SetName
 * @typedef {{id: string, strategy: string, model: string | null, drafts?: string}} LaneOf `model` null: the page's own;
 *   `drafts`: its speculative_config
 */

/** @type {(...names: string[]) => LaneOf[]} */
const strategies = (...names) => names.map((id) => ({ id, strategy: id, model: null }));

/**
 * `strategies`: from none to the one that wastes least: what one sequence tells apart.
 * `caches`: how K and V have been kept beside each other: concatenated by hand, transformers' two caches, pages.
 * `models`: the siblings that come with the program: three that differ in their KV heads alone, and the hybrid.
 * `drafts`: a token a step, drafts by n-grams, drafts by a model.
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

/** The set that races. */
export const racing = computed(() => settings.lanes.value);

/** Its lanes, by their ids. */
export const lanes = computed(() => SETS[racing.value].map(({ id }) => id));

export const race = new Lockstep(
  "race",
  SETS.strategies.map(({ id }) => id),
  { recorded: (id) => `race-${language.value}-${id}` },
);

/** The logs of these lanes; null before there are any, as when those that are there are of another set. */
export const logs = computed(() => {
  const asked = race.asked.value;
  return !asked || Object.keys(asked.configs).join() === lanes.value.join() ? race.logs.value : null;
});

/** What the lanes are called, in their order. */
export const names = () =>
  lanes.value.map((id) => (racing.value === "caches" ? valueText("strategy", id) : t(`race.${id}`)));
