// The fault museum: which exhibit is on show, what its two lanes are asked and how far they are apart.

import { batch, computed, effect, signal } from "../../../vendor/signals/signals.js";
import { openRun } from "../../control/anew.js";
import { Lockstep } from "../../runs/lockstep.js";
import { LanesPlayer } from "../../runs/player.js";
import { firstTokenDifference, sequencesAt } from "../../runs/tokens.js";
import { settings } from "../../state/settings.js";
import { exhibits } from "../../state/store.js";
import { language } from "../../tell/language.js";
import { inLanguage, t } from "../../tell/words.js";
import { firstKeyDifference } from "./arrays.js";
import { firstContradiction } from "./evidence.js";
import { museumSentence } from "./words.js";

/**
 * @typedef {import("../../core/wire.js").ModelAnswer["museum"][number]} Exhibit
 * @typedef {"healthy" | "faulty"} Lane
 * @typedef {NonNullable<typeof scene.value>} Scene
 */

/** @type {Lane[]} the two lanes, in this order everywhere */
export const LANES = ["healthy", "faulty"];
/** What they are called. */
export const names = () => LANES.map((name) => t(`museum.${name}`));
export const lanes = new Lockstep("museum", LANES, {
  captures: true,
  recorded: (lane) => `museum-${settings.exhibit.value?.replaceAll("_", "-")}-${language.value}-${lane}`,
});

/** The one on show, or null. */
export const exhibit = computed(() => {
  const shown = /** @type {Exhibit[]} */ (exhibits.value).find((one) => one.id === settings.exhibit.value);
  return shown ?? null;
});

/** The museum as what the page shows and drives. */
export const player = new LanesPlayer(lanes, {
  wish: () => exhibit.value && wishOf(exhibit.value),
  told: () => museumSentence(scene.value, lanes),
});

/** The sequence whose arrays are asked for, or null for the one in which the fault shows first. */
export const chosenSeq = signal(/** @type {number | null} */ (null));

/**
 * What is looked at: {logs, step, last, seqs, seq, first}, or null before the first run. `first`: who noticed what
 * first, as far as was run.
 */
export const scene = computed(() => {
  const logs = lanes.logs.value;
  if (!logs) return null;
  const [step, last] = [player.shownStep.value, lanes.numSteps.value];
  const first = {
    log: firstContradiction([logs[0], logs[1]], last),
    keys: firstKeyDifference(logs, last),
    tokens: firstTokenDifference(logs, last),
  };
  const seqs = sequencesAt(logs, step);
  const ids = seqs.map((seq) => seq.seq_id);
  const asked = [chosenSeq.value, first.log?.seq_id, first.keys?.seq_id, first.tokens?.seq_id, ids[0]];
  const seq = asked.find((id) => id !== null && id !== undefined && ids.includes(id)) ?? null;
  return { logs, step, last, seqs, seq, first };
});

let [onShow, inWords] = [settings.exhibit.peek(), language.peek()];
effect(() => {
  if (settings.exhibit.value === onShow && language.value === inWords) return;
  [onShow, inWords] = [settings.exhibit.value, language.value]; // another language has other prompts
  chosenSeq.value = null;
  player.begin(); // what was run was another exhibit's
});

/**
 * @param {Exhibit} shown
 * @param {Lane} lane
 */
const configOf = (shown, lane) => ({ ...shown.config, fault: lane === "faulty" ? shown.id : null });

/**
 * What both lanes are asked: the same, but for the fault.
 * @param {Exhibit} shown
 * @returns {import("../../runs/lockstep.js").Wish}
 */
export function wishOf(shown) {
  const { prompts, sampling } = shown;
  return {
    prompts: inLanguage(prompts),
    sampling,
    configs: Object.fromEntries(LANES.map((lane) => [lane, configOf(shown, lane)])),
  };
}

/**
 * Make the page follow a run as the lane on the stage is, as far as it is looked at.
 * @param {Exhibit} shown
 */
export async function follow(shown) {
  const { prompts, sampling } = shown;
  lanes.pause();
  const [config, step] = [configOf(shown, LANES[player.chosen.value]), player.shownStep.value];
  if (!(await openRun({ prompts: lanes.asked.value?.prompts ?? inLanguage(prompts), sampling, config }, step))) return;
  batch(() => {
    settings.detail.value = "attention";
    settings.region.value = "stage";
  });
}
