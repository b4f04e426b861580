// A race: one prompt under every strategy, in lockstep.

import { Lockstep } from "../../runs/lockstep.js";

export const STRATEGIES = ["none", "contiguous", "paged"];

export const race = new Lockstep("race", STRATEGIES);
