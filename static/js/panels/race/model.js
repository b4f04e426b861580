// A race: one prompt under every strategy, in lockstep.

import { Lockstep } from "../../runs/lockstep.js";
import { language } from "../../tell/language.js";
import { t } from "../../tell/words.js";

/** From none to the one that wastes least: what one sequence tells apart. */
export const STRATEGIES = ["none", "contiguous", "paged"];

export const race = new Lockstep("race", STRATEGIES, {
  recorded: (strategy) => `race-${language.value}-${strategy}`,
});

/** What the lanes are called, in their order. */
export const names = () => STRATEGIES.map((name) => t(`race.${name}`));
