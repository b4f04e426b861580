// The fault museum: the shown exhibit, the requests of its two lanes, and their differences.

import { batch, computed, effect, signal } from "../../../vendor/signals/signals.js";
import { openRun } from "../../control/restart.js";
import { language } from "../../i18n/language.js";
import { inLanguage, t } from "../../i18n/words.js";
import { Lockstep } from "../../runs/lockstep.js";
import { LanesPlayer } from "../../runs/player.js";
import { firstTokenDifference, sequencesAt } from "../../runs/tokens.js";
import { settings } from "../../state/settings.js";
import { exhibits } from "../../state/store.js";
import { firstKeyDifference } from "./arrays.js";
import { firstContradiction } from "./evidence.js";
import { museumSentence } from "./words.js";

/**
 * @typedef {import("../../core/wire.js").ModelAnswer["museum"][number]} Exhibit
 * @typedef {"healthy" | "faulty"} LaneName
 * @typedef {NonNullable<typeof scene.value>} Scene
 */

/** @type {LaneName[]} the two lanes, always in this order */
export const LANES = ["healthy", "faulty"];
/** Names of the lanes. */
export const names = () => LANES.map((name) => t(`museum.${name}`));
export const lanes = new Lockstep("museum", LANES, {
  captures: true,
  recorded: (lane) => `museum-${settings.exhibit.value?.replaceAll("_", "-")}-${language.value}-${lane}`,
});

/** The shown exhibit, or null. */
export const exhibit = computed(() => {
  const shown = /** @type {Exhibit[]} */ (exhibits.value).find((one) => one.id === settings.exhibit.value);
  return shown ?? null;
});

/** Player of the exhibit's lanes. */
export const player = new LanesPlayer(lanes, {
  spec: () => exhibit.value && specOf(exhibit.value),
  sentence: () => museumSentence(scene.value, lanes),
});

/** Sequence whose arrays are shown, or null for the sequence in which the fault appears first. */
export const chosenSeq = signal(/** @type {number | null} */ (null));

/**
 * The shown scene {logs, step, last, seqs, seq, first}, or null before the first run. `first`: first difference of each
 * kind so far.
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
  const candidates = [chosenSeq.value, first.log?.seq_id, first.keys?.seq_id, first.tokens?.seq_id, ids[0]];
  const seq = candidates.find((id) => id !== null && id !== undefined && ids.includes(id)) ?? null;
  return { logs, step, last, seqs, seq, first };
});

let [currentExhibit, currentLanguage] = [settings.exhibit.peek(), language.peek()];
effect(() => {
  if (settings.exhibit.value === currentExhibit && language.value === currentLanguage) return;
  [currentExhibit, currentLanguage] = [settings.exhibit.value, language.value]; // prompts depend on the language
  chosenSeq.value = null;
  player.begin(); // the previous run belongs to another exhibit
});

/** @param {Exhibit} shown @param {LaneName} lane */
const configOf = (shown, lane) => ({ ...shown.config, fault: lane === "faulty" ? shown.id : null });

/**
 * Return the request of both lanes, which differ only in the fault.
 * @param {Exhibit} shown
 * @returns {import("../../runs/lockstep.js").RunSpec}
 */
export function specOf(shown) {
  const { prompts, sampling } = shown;
  return {
    prompts: inLanguage(prompts),
    sampling,
    configs: Object.fromEntries(LANES.map((lane) => [lane, configOf(shown, lane)])),
  };
}

/** Open a run with the settings of the lane on stage, up to the shown step. @param {Exhibit} shown */
export async function follow(shown) {
  const { prompts, sampling } = shown;
  lanes.pause();
  const [config, step] = [configOf(shown, LANES[player.chosen.value]), player.shownStep.value];
  if (!(await openRun({ prompts: lanes.spec.value?.prompts ?? inLanguage(prompts), sampling, config }, step))) return;
  batch(() => {
    settings.detail.value = "attention";
    settings.region.value = "stage";
  });
}
