// Actions of the buttons and keys. Every change of the run is sent to the server; nothing is drawn here.

import { effect, signal } from "../../vendor/signals/signals.js";
import { unfinished } from "../core/instances.js";
import { t } from "../i18n/words.js";
import { isPhone } from "../kit/measure.js";
import { command, focusOn, submit, tokensOf } from "../net/commands.js";
import { draft, draftIsSent, markSent } from "../state/prompts.js";
import { differing } from "../state/run_settings.js";
import { optionSetting, settings } from "../state/settings.js";
import * as store from "../state/store.js";
import { applyConfig } from "./restart.js";

/** @import {Performed} from "../core/wire.js" */
/** @import {OptionValue} from "../state/settings.js" */

/** Whether the tokenizer will replace punctuation of the draft. */
export const rewritten = signal(false);

const expected = () => ({ expect: store.own.numRecords.peek() });

/** Submit the draft to the waiting queue, now or after some steps. @param {number} [after] */
export async function addPrompt(after = 0) {
  const text = draft.value;
  if (!text) return store.toast(t("error.no_prompt"));
  const answer = await submit([after ? { text, after_steps: after } : { text }]);
  if (!answer) return null;
  markSent(text);
  settings.scene.value = null; // the run is no longer that of a scene
  return answer;
}

const numUnfinished = () => {
  const log = store.own.log.peek();
  return log ? unfinished(log.tail) : 0;
};

/**
 * Submit the draft if it is new (`always`) or if no other request is unfinished. Returns false if there is nothing to
 * do.
 * @param {boolean} always
 */
async function ensureWork(always) {
  store.backToLive();
  // the server is in mode "running", but all requests are finished
  if (store.status.value?.mode === "running" && numUnfinished() === 0) await command("pause");
  if (draft.value && !draftIsSent.value && (always || numUnfinished() === 0)) {
    const answer = await addPrompt();
    const { seq_id: id = 0 } = answer?.requests[0] ?? {};
    if (id > 0) settings.seq.value = id; // show the new prompt's sequence
    return Boolean(answer);
  }
  if (numUnfinished() > 0) return true;
  store.toast(t("transport.nothing"));
  return false;
}

/**
 * Switch a phone, which shows one region at a time, to the stage: after writing a prompt and from the setup. The
 * memory region or a panel stays open while stepping.
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

/** @type {Promise<Performed | false | null> | null} */
let stepping = null;
/** @type {Promise<Performed | false | null> | null} */
let nextStep = null;

/**
 * Take a step. A step requested before the previous one is displayed waits for it. At most one waits.
 * @returns {Promise<Performed | false | null>}
 */
export function step() {
  if (!stepping) {
    const current = takeStep().finally(() => {
      stepping = null;
    });
    stepping = current;
    return current;
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
  if (answer) await waitForRecords(answer.num_records);
  return answer;
}

const MAX_WAIT_MS = 2000; // for a step's records

/** @param {number} count number of records to wait for */
async function waitForRecords(count) {
  const end = performance.now() + MAX_WAIT_MS;
  while (store.own.numRecords.peek() < count && performance.now() < end) await new Promise(requestAnimationFrame);
}

export async function run() {
  if (!(await ensureWork(false))) return;
  showStage(false);
  await runAtSpeed();
}

let numRequests = 0; // number of run and pause requests; only the latest counts
/** @type {number | null} */
let sending = null; // number of the request that is sending a speed

/**
 * Run at the speed that the control has when the response arrives. Requests are sent one at a time, as they may
 * overtake each other.
 */
async function runAtSpeed() {
  const request = (sending = ++numRequests);
  for (let speed = null; request === numRequests && speed !== settings.speed.peek(); ) {
    speed = settings.speed.peek();
    if (!(await command("run", { speed: speed }))) break;
  }
  if (sending === request) sending = null;
}

export function pause() {
  numRequests += 1;
  return command("pause");
}

/** Return whether the engine is stepping. A run without unfinished requests counts as paused. */
export const running = () =>
  store.status.value?.mode === "running" && store.own.numRecords.value > 0 && numUnfinished() > 0;

/** Return whether the controls differ from the run's header. */
export const configDiffers = () => differing().length > 0;

/** @param {string} name @param {OptionValue} value */
export const changeConfig = (name, value) => changeConfigs({ [name]: value });

/** Change settings together, as one without the others may be invalid. @param {Record<string, OptionValue>} values */
export function changeConfigs(values) {
  for (const [name, value] of Object.entries(values)) optionSetting(name).value = value;
  if (store.own.numRecords.value === 0 && configDiffers()) applyConfig();
}

/** @param {string} requestId */
export const abort = (requestId) => command("abort", { request_id: requestId });

/** Send speed changes to the server while it runs. */
export function followSpeed() {
  let known = settings.speed.peek();
  effect(() => {
    const speed = settings.speed.value;
    if (speed !== known && sending !== numRequests && store.status.peek()?.mode === "running") runAtSpeed();
    known = speed;
  });
}

/** Ask the server how it will tokenize the draft, if punctuation may be replaced. */
export function followDraft() {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  effect(() => {
    const text = draft.value;
    const connected = store.connection.value === "live";
    clearTimeout(timer);
    if (!connected || !/[\u2e80-\u{10ffff}][,?!]/u.test(text)) return void (rewritten.value = false);
    timer = setTimeout(async () => {
      const tokenized = (await tokensOf(text))?.text ?? null;
      if (draft.peek() === text) rewritten.value = tokenized !== null && tokenized !== text;
    }, 200);
  });
}

/** Send the chosen layer to the server, which captures it first when the byte budget is limited. */
export function followFocus() {
  effect(() => {
    const layer = store.layer.value;
    store.own.log.value; // sent again for another run
    if (store.connection.value === "live") focusOn(layer);
  });
}

/** Speeds offered, in steps per second; 0 is unlimited. */
export const SPEEDS = [0.25, 0.5, 1, 2, 4, 8, 16, 0];
