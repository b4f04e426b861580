// The fault museum: which exhibit is on show, what its two lanes are asked and how far they are apart, and its run on the stage.

import { batch, computed, effect, signal } from "../../../vendor/signals/signals.js";
import { openScene } from "../../control/actions.js";
import { firstContradiction, firstTokenDifference, sequencesAt } from "../../runs/fault.js";
import { firstKeyDifference } from "../../runs/fault_arrays.js";
import { Lockstep } from "../../runs/lockstep.js";
import { settings } from "../../state/settings.js";
import { exhibits } from "../../state/store.js";

/** The two lanes, in this order everywhere. */
export const LANES = ["healthy", "faulty"];
export const lanes = new Lockstep("museum", LANES, { captures: true });

/** The one on show, or null. */
export const exhibit = computed(() => exhibits.value.find((one) => one.id === settings.exhibit.value) ?? null);

/** The sequence whose arrays are asked for, or null for the one in which the fault shows first. */
export const chosenSeq = signal(null);

/** What is looked at: {logs, step, last, seqs, seq, first}, or null before the first run. `first`: who noticed what first, as far as was run. */
export const scene = computed(() => {
  const logs = lanes.logs.value;
  if (!logs) return null;
  const [step, last] = [lanes.shownStep.value, lanes.numSteps.value];
  const first = {
    log: firstContradiction([logs[0], logs[1]], last),
    keys: firstKeyDifference(logs, last),
    tokens: firstTokenDifference(logs, last),
  };
  const seqs = sequencesAt(logs, step);
  const ids = seqs.map((seq) => seq.seq_id);
  const told = [chosenSeq.value, first.log?.seq_id, first.keys?.seq_id, first.tokens?.seq_id, ids[0]].find((id) =>
    ids.includes(id),
  );
  return { logs, step, last, seqs, seq: told ?? null, first };
});

let onShow = settings.exhibit.peek();
effect(() => {
  if (settings.exhibit.value === onShow) return;
  onShow = settings.exhibit.value;
  chosenSeq.value = null;
  lanes.reset(); // what was run was another exhibit's
});

const configOf = (shown, lane) => ({ ...shown.config, fault: lane === "faulty" ? shown.id : null });

/** What both lanes are asked: the same, but for the fault. */
export function wish() {
  const { prompts, sampling } = exhibit.value;
  return { prompts, sampling, configs: Object.fromEntries(LANES.map((lane) => [lane, configOf(exhibit.value, lane)])) };
}

/** Make the page follow a run as `lane` is, as far as it is looked at. */
export async function openOnStage(lane) {
  const shown = exhibit.value;
  const { prompts, sampling } = shown;
  lanes.pause();
  if (!(await openScene({ prompts, sampling, config: configOf(shown, lane) }, lanes.shownStep.value))) return;
  batch(() => {
    settings.detail.value = "attention";
    settings.region.value = "stage";
  });
}
