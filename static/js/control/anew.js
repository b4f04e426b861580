// What begins a new log: a reset, other settings, a scene. What was asked before waits again.

import { batch, computed, effect, signal } from "../../vendor/signals/signals.js";
import { tellingHeads } from "../core/heads.js";
import { command, submit } from "../net/commands.js";
import { session } from "../net/session.js";
import { followRun, keepDraft } from "../state/prompts.js";
import { asking, chooseConfig, chooseSampling, wantedConfig, wantedModel } from "../state/run_settings.js";
import { settings, TABLE } from "../state/settings.js";
import * as store from "../state/store.js";
import { fill, inLanguage, t } from "../tell/words.js";
import { showOwn } from "./shown.js";

/** @typedef {import("../core/wire.js").Answers["/api/model"]["presets"][number]} Scene */

/** The scenes that the server has. */
export const scenes = computed(() => /** @type {Scene[]} */ (store.modelFacts.value?.presets ?? []));

/** The scene whose run is shown, or null. */
export const scene = computed(() => scenes.value.find((one) => one.id === settings.scene.value) ?? null);

/**
 * What counts a whole run: its code comes with the first scene.
 *
 * @type {import("../../vendor/signals/signals.js").Signal<typeof import("../core/scene_figures.js") | null>}
 */
const counting = signal(null);
effect(() => {
  if (scene.value && !counting.peek())
    import("../core/scene_figures.js").then(
      (code) => (counting.value = code),
      () => store.toast(t("error.no_answer"), "error"),
    );
});

/** What the scene's whole run proves, in a sentence; null before its end. */
export const sceneEnd = computed(() => {
  store.own.numRecords.value; // the log grows
  const [played, log, count] = [scene.value, store.own.log.value, counting.value];
  const figures = played && log && count?.isOver(log) ? count.sceneFigures(log, played.seq ?? 0) : null;
  return played && figures ? fill(inLanguage(played.end), figures) : null;
});

/** A new, empty log under the same settings. */
export async function reset() {
  store.backToLive();
  await again(() => command("reset"));
}

/** A new log under the settings that the controls show. */
export async function applyConfig() {
  store.backToLive();
  return again(configure);
}

/** A new run where there is none any more, when the server is back. */
export const startAgain = () => again(() => session.startAgain());

/** A run of one's own that is asked what the followed one is asked. */
export const runOfOnesOwn = () => again(() => session.startAnew());

/**
 * Begin anew: the prompt stands in the box to be sent again, those of a scene wait again.
 *
 * @param {() => Promise<unknown>} begin whether there will be a new log
 * @returns {Promise<boolean>} the same
 */
async function again(begin) {
  const played = scene.peek();
  if (played) return stage(begin, played);
  keepDraft();
  return Boolean(await begin());
}

/** @type {Promise<unknown>} */
let configured = Promise.resolve(); // what was asked for last
let configurations = 0;

/**
 * Tell the server the settings when it has those before: requests may overtake each other. Null: refused, or later ones
 * follow.
 */
async function configure() {
  const mine = (configurations += 1);
  asking.count += 1;
  const before = configured;
  const sent = before.then(() =>
    mine === configurations ? command("configure", { config: wantedConfig(), model: wantedModel() }) : null,
  );
  configured = sent.catch(() => null);
  try {
    const answer = await sent;
    return mine === configurations ? answer : null;
  } finally {
    asking.count -= 1;
  }
}

// ── Scenes ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/** The page's own value of every setting. */
const initialValues = () => Object.fromEntries(Object.entries(TABLE).map(([name, row]) => [name, row.initial]));

/**
 * Set the stage for a scene: its settings, a new log, its prompts waiting, and the page looks where it happens.
 *
 * @param {Scene} wanted
 */
export async function playScene(wanted) {
  showOwn();
  store.backToLive();
  const initial = initialValues();
  batch(() => {
    // a model of its own is given back with the next scene
    if (wanted.model || scene.peek()?.model) settings.model.value = wanted.model;
    chooseConfig(wanted.config, initial);
    chooseSampling(wanted.sampling, initial);
    settings.priority.value = Number(initial.priority);
  });
  if (!(await stage(configure, wanted))) return;
  const head = tellingHeads(store.own.log.peek()?.header.model).find(({ pattern }) => pattern === wanted.pattern);
  batch(() => {
    settings.layer.value = head?.layer ?? null;
    settings.head.value = head?.head ?? null;
    settings.detail.value = wanted.detail;
    if (wanted.detail === "time") settings.chart.value = "memory"; // which blocks are there when
    settings.speed.value = wanted.speed;
    settings.region.value = "stage";
  });
}

/** Play the scene that a link names without a run, as soon as there is a run to play it in. */
export function playLinkedScene() {
  if (!settings.scene.peek() || settings.theater.peek() || settings.recording.peek()) return;
  const wait = effect(() => {
    const wanted = scene.value;
    if (store.connection.value === "live" && store.own.log.value && wanted)
      queueMicrotask(() => (wait(), playScene(wanted)));
  });
}

/**
 * @param {() => Promise<unknown>} begin whether there will be a new log
 * @param {Scene} wanted whose prompts it gets
 * @returns {Promise<boolean>} whether it has them
 */
async function stage(begin, wanted) {
  const before = store.own.log.peek();
  if (!(await begin())) return false;
  await logAfter(before);
  batch(() => {
    settings.scene.value = wanted.id;
    settings.seq.value = wanted.seq;
    followRun();
  });
  const prompts = inLanguage(wanted.prompts);
  return Boolean(await submit(prompts.map((text, i) => ({ text, after_steps: wanted.after_steps[i] ?? 0 }))));
}

/**
 * The log that takes the place of `before`: the answer to what begins one may come earlier than the log itself.
 *
 * @param {import("../core/log.js").TraceLog | null} before
 */
async function logAfter(before) {
  /** @type {() => void} */
  let stop = () => {};
  await new Promise((done) => {
    stop = effect(() => {
      if (store.own.log.value !== before) done(null);
    });
  });
  stop();
}

/**
 * Follow a run of its own with these prompts, of a whole configuration, and take its first `count` steps. Whether there
 * is one: the run that was followed stays when there is not.
 *
 * @param {{prompts: string[], sampling: Record<string, unknown>, config: Record<string, unknown>}} wanted
 * @param {number} count
 */
export async function openRun(wanted, count) {
  showOwn();
  if (!(await session.startAnew(wanted.config))) return false;
  const initial = initialValues();
  batch(() => {
    chooseSampling(wanted.sampling, initial);
    settings.priority.value = Number(initial.priority);
    followRun();
  });
  if ((await submit(wanted.prompts.map((text) => ({ text })))) && count > 0) await command("step", { count });
  return true;
}
