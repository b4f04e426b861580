// What the buttons and keys do. Everything that changes the run goes to the server; nothing is drawn from here.

import { effect, signal } from "../../vendor/signals/signals.js";
import { unfinished } from "../core/instances.js";
import { isPhone } from "../kit/measure.js";
import { command, focusOn, submit, tokensOf } from "../net/commands.js";
import { draft, draftIsSent, markSent } from "../state/prompts.js";
import { differing } from "../state/run_settings.js";
import { optionSetting, settings } from "../state/settings.js";
import * as store from "../state/store.js";
import { t } from "../tell/words.js";
import { applyConfig } from "./anew.js";

/** Whether the model will see the draft with other punctuation than it was written with. */
export const rewritten = signal(false);

const expected = () => ({ expect: store.own.numRecords.peek() });

/**
 * Send the draft to the waiting queue, now or so many steps later.
 *
 * @param {number} [after]
 */
export async function addPrompt(after = 0) {
  const text = draft.value;
  if (!text) return store.toast(t("error.no_prompt"));
  const answer = await submit([after ? { text, after_steps: after } : { text }]);
  if (!answer) return null;
  markSent(text);
  settings.scene.value = null; // from here on it is the reader's own run
  return answer;
}

const numUnfinished = () => {
  const log = store.own.log.peek();
  return log ? unfinished(log.tail) : 0;
};

/**
 * Submit the draft when there is a new one (`always`) or when nothing else is left to compute. False: nothing to do.
 *
 * @param {boolean} always
 */
async function ensureWork(always) {
  store.backToLive();
  if (store.status.value?.mode === "running" && numUnfinished() === 0) await command("pause"); // it ran out of work
  if (draft.value && !draftIsSent.value && (always || numUnfinished() === 0)) {
    const answer = await addPrompt();
    const { seq_id: id = 0 } = answer?.requests[0] ?? {};
    if (id > 0) settings.seq.value = id; // a new prompt takes the stage
    return Boolean(answer);
  }
  if (numUnfinished() > 0) return true;
  store.toast(t("transport.nothing"));
  return false;
}

/**
 * A phone shows one region at a time. Who reads a new prompt looks at the stage, and so does who has just written one;
 * who watches the memory or a panel while stepping stays there.
 *
 * @param {boolean} always
 */
function showStage(always) {
  if (isPhone() && (always || settings.region.peek() === "setup")) settings.region.value = "stage";
}

export async function prefill() {
  if (!(await ensureWork(true))) return;
  showStage(true);
  await command("prefill");
}

/** @typedef {import("../core/wire.js").Performed} Performed */
/** @type {Promise<Performed | false | null> | null} */
let stepping = null;
/** @type {Promise<Performed | false | null> | null} */
let nextStep = null;

/**
 * Take a step; one that is asked for before the last one is seen waits for it, and no more than one does.
 *
 * @returns {Promise<Performed | false | null>}
 */
export function step() {
  if (!stepping) {
    const taken = takeStep().finally(() => {
      stepping = null;
    });
    stepping = taken;
    return taken;
  }
  const next =
    nextStep ??
    stepping
      .catch(() => null)
      .then(() => {
        nextStep = null;
        return step();
      });
  nextStep = next;
  return next;
}

/** @returns {Promise<Performed | false | null>} */
async function takeStep() {
  const fresh = numUnfinished() === 0;
  if (!(await ensureWork(false))) return false;
  showStage(false);
  const answer = await command("step", fresh ? {} : expected());
  if (answer) await seen(answer.num_records);
  return answer;
}

const SEEN_MS = 2000; // for which the next step waits for the records of the last one

/** @param {number} count records that the page is to have */
async function seen(count) {
  const end = performance.now() + SEEN_MS;
  while (store.own.numRecords.peek() < count && performance.now() < end) await new Promise(requestAnimationFrame);
}

export async function run() {
  if (!(await ensureWork(false))) return;
  showStage(false);
  await runAtSpeed();
}

let turn = 0; // of running and pausing: the last one counts
/** @type {number | null} */
let telling = null; // the turn in which the server is being told a speed

/**
 * Run at the speed that the control shows when the answer is here: requests may overtake each other, so one at a time.
 */
async function runAtSpeed() {
  const mine = (telling = ++turn);
  for (let told = null; mine === turn && told !== settings.speed.peek(); ) {
    told = settings.speed.peek();
    if (!(await command("run", { speed: told }))) break;
  }
  if (telling === mine) telling = null;
}

export function pause() {
  turn += 1;
  return command("pause");
}

/** Whether steps are being taken: a run that has nothing left to compute counts as paused. */
export const running = () =>
  store.status.value?.mode === "running" && store.own.numRecords.value > 0 && numUnfinished() > 0;

/** Whether the controls say something other than the run's own header. */
export const configDiffers = () => differing().length > 0;

/** @typedef {import("../state/settings.js").OptionValue} OptionValue */

/** @param {string} name @param {OptionValue} value */
export const changeConfig = (name, value) => changeConfigs({ [name]: value });

/** Several at once: one without the others may be what cannot be. @param {Record<string, OptionValue>} values */
export function changeConfigs(values) {
  for (const [name, value] of Object.entries(values)) optionSetting(name).value = value;
  if (store.own.numRecords.value === 0 && configDiffers()) applyConfig();
}

/** @param {string} requestId */
export const abort = (requestId) => command("abort", { request_id: requestId });

/** Tell the server another speed while it runs. */
export function followSpeed() {
  let known = settings.speed.peek();
  effect(() => {
    const speed = settings.speed.value;
    if (speed !== known && telling !== turn && store.status.peek()?.mode === "running") runAtSpeed();
    known = speed;
  });
}

/** Ask the server how the model will see the draft, when it may differ. */
export function followDraft() {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  effect(() => {
    const text = draft.value;
    const connected = store.connection.value === "live";
    clearTimeout(timer);
    if (!connected || !/[\u2e80-\u{10ffff}][,?!]/u.test(text)) return void (rewritten.value = false);
    timer = setTimeout(async () => {
      const seen = (await tokensOf(text))?.text ?? null;
      if (draft.peek() === text) rewritten.value = seen !== null && seen !== text;
    }, 200);
  });
}

/** Captures over their byte budget keep the chosen layer first. */
export function followFocus() {
  effect(() => {
    const layer = store.layer.value;
    store.own.log.value; // another run has not been told
    if (store.connection.value === "live") focusOn(layer);
  });
}

/** Speeds offered, steps a second; 0 is as fast as it goes. */
export const SPEEDS = [0.25, 0.5, 1, 2, 4, 8, 16, 0];
