// A race: one prompt in several lanes, in lockstep. There are two sets of them.

import { computed } from "../../../vendor/signals/signals.js";
import { Lockstep } from "../../runs/lockstep.js";
import { settings } from "../../state/settings.js";
import { language } from "../../tell/language.js";
import { valueText } from "../../tell/options.js";
import { t } from "../../tell/words.js";

/**
 * Each lane is a strategy of the engine.
 *
 * `strategies`: from none to the one that wastes least: what one sequence tells apart.
 * `caches`: how K and V have been kept beside each other: concatenated by hand, transformers' two caches, pages.
 * @type {Record<"strategies" | "caches", string[]>}
 */
export const SETS = {
  strategies: ["none", "contiguous", "paged"],
  caches: ["concat", "dynamic", "static", "paged"],
};

/** The lanes of the set that is chosen. */
export const lanes = computed(() => SETS[settings.lanes.value]);

/** Whether caches race: what is copied is counted then, for all compute the same. */
export const copying = computed(() => settings.lanes.value === "caches");

export const race = new Lockstep("race", SETS.strategies, {
  recorded: (strategy) => `race-${language.value}-${strategy}`,
});

/** The logs of these lanes; null before there are any, as when those that are there are of the other set. */
export const logs = computed(() => {
  const asked = race.asked.value;
  return !asked || Object.keys(asked.configs).join() === lanes.value.join() ? race.logs.value : null;
});

/** What the lanes are called, in their order. */
export const names = () => lanes.value.map((name) => (copying.value ? valueText("strategy", name) : t(`race.${name}`)));
