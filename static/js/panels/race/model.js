// A race: one prompt under every strategy, in lockstep.

import { Lockstep } from "../../runs/lockstep.js";
import { choicesOf } from "../../state/options.js";
import { language } from "../../tell/language.js";
import { t } from "../../tell/words.js";

/** From none to the one that wastes least. */
export const STRATEGIES = [...choicesOf("strategy")].reverse();

export const race = new Lockstep("race", STRATEGIES, {
  recorded: (strategy) => `race-${language.value}-${strategy}`,
});

/** What the lanes are called, in their order. */
export const names = () => STRATEGIES.map((name) => t(`race.${name}`));
