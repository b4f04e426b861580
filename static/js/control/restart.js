// Actions that start a new log: reset, changed settings, a scene. A scene's prompts are queued again.

import { batch, computed, effect, signal } from "../../vendor/signals/signals.js";
import { measuredHeads } from "../core/roles.js";
import { fill, inLanguage, t } from "../i18n/words.js";
import { command, submit } from "../net/commands.js";
import { session } from "../net/session.js";
import { followRun, keepDraft } from "../state/prompts.js";
import { chooseConfig, chooseSampling, pendingConfigs, wantedConfig, wantedModel } from "../state/run_settings.js";
import { settings, TABLE } from "../state/settings.js";
import * as store from "../state/store.js";
import { showOwn } from "./drawn.js";

/** @typedef {import("../core/wire.js").Answers["/api/model"]["presets"][number]} Scene */

/** Scenes that the server offers. */
export const scenes = computed(() => /** @type {Scene[]} */ (store.modelFacts.value?.presets ?? []));

/** The scene of the shown run, or null. */
export const scene = computed(() => scenes.value.find((one) => one.id === settings.scene.value) ?? null);

/**
 * Module that computes the figures of a complete run, loaded with the first scene.
 * @type {import("../../vendor/signals/signals.js").Signal<typeof import("../core/scene_figures.js") | null>}
 */
const figuresModule = signal(null);
effect(() => {
  if (scene.value && !figuresModule.peek())
    import("../core/scene_figures.js").then(
      (code) => (figuresModule.value = code),
      () => store.toast(t("error.no_answer"), "error"),
    );
});

/** Final sentence of the scene; null before the run's end. */
export const sceneEnd = computed(() => {
  store.own.numRecords.value; // subscribes to the growing log
  const [played, log, module] = [scene.value, store.own.log.value, figuresModule.value];
  const figures = played && log && module?.isOver(log) ? module.sceneFigures(log, played.seq ?? 0) : null;
  return played && figures ? fill(inLanguage(played.end), figures) : null;
});

/** Start a new, empty log with the same settings. */
export async function reset() {
  store.backToLive();
  await startOver(() => command("reset"));
}

/** Start a new log with the controls' settings. */
export async function applyConfig() {
  store.backToLive();
  return startOver(configure);
}

/** Start a new run instead of a lost one, as soon as the server is back. */
export const startAgain = () => startOver(() => session.startAgain());

/** Start a run of the user's own with the prompts of the followed one. */
export const startOwnRun = () => startOver(() => session.startNewRun());

/**
 * Start over: the prompt returns to the text box, and a scene's prompts are queued again.
 * @param {() => Promise<unknown>} begin resolves to whether there will be a new log
 * @returns {Promise<boolean>} whether there will be a new log
 */
async function startOver(begin) {
  const played = scene.peek();
  if (played) return startScene(begin, played);
  keepDraft();
  return Boolean(await begin());
}

/** @type {Promise<unknown>} */
let lastRequest = Promise.resolve();
let numRequests = 0;

/**
 * Send the settings after earlier ones are acknowledged, as requests may overtake each other. Returns null if they
 * are refused or newer ones follow.
 */
async function configure() {
  const number = (numRequests += 1);
  pendingConfigs.count += 1;
  const before = lastRequest;
  const sent = before.then(() =>
    number === numRequests ? command("configure", { config: wantedConfig(), model: wantedModel() }) : null,
  );
  lastRequest = sent.catch(() => null);
  try {
    const answer = await sent;
    return number === numRequests ? answer : null;
  } finally {
    pendingConfigs.count -= 1;
  }
}

// ── Scenes ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Return the page's initial value of every setting. */
const initialValues = () => Object.fromEntries(Object.entries(TABLE).map(([name, row]) => [name, row.initial]));

/** Play a scene: set its options, start a log, queue its prompts, show its part of the page. @param {Scene} wanted */
export async function playScene(wanted) {
  showOwn();
  store.backToLive();
  const initial = initialValues();
  batch(() => {
    // the next scene restores the model
    if (wanted.model || scene.peek()?.model) settings.model.value = wanted.model;
    chooseConfig(wanted.config, initial);
    chooseSampling(wanted.sampling, initial);
    settings.priority.value = Number(initial.priority);
  });
  if (!(await startScene(configure, wanted))) return;
  const head = measuredHeads(store.own.log.peek()?.header.model).find(({ pattern }) => pattern === wanted.pattern);
  batch(() => {
    settings.layer.value = head?.layer ?? null;
    settings.head.value = head?.head ?? null;
    settings.detail.value = wanted.detail;
    if (wanted.detail === "time") settings.chart.value = "memory"; // shows which blocks are allocated over time
    settings.speed.value = wanted.speed;
    settings.region.value = "stage";
  });
}

/** Play the scene of a link that names no run, as soon as there is a run. */
export function playLinkedScene() {
  if (!settings.scene.peek() || settings.theater.peek() || settings.recording.peek()) return;
  const wait = effect(() => {
    const wanted = scene.value;
    if (store.connection.value === "live" && store.own.log.value && wanted)
      queueMicrotask(() => (wait(), playScene(wanted)));
  });
}

/**
 * @param {() => Promise<unknown>} begin resolves to whether there will be a new log
 * @param {Scene} target scene whose prompts are queued
 * @returns {Promise<boolean>} whether the prompts are queued
 */
async function startScene(begin, target) {
  const before = store.own.log.peek();
  if (!(await begin())) return false;
  await logAfter(before);
  batch(() => {
    settings.scene.value = target.id;
    settings.seq.value = target.seq;
    followRun();
  });
  const prompts = inLanguage(target.prompts);
  return Boolean(await submit(prompts.map((text, i) => ({ text, after_steps: target.after_steps[i] ?? 0 }))));
}

/**
 * Wait for the log that replaces `before`: the response to a reset may arrive before the log.
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
 * Start and follow a run with these prompts and a complete configuration, and take its first `count` steps. Returns
 * whether it was created; if not, the followed run stays.
 * @param {{prompts: string[], sampling: Record<string, unknown>, config: Record<string, unknown>}} wanted
 * @param {number} count
 */
export async function openRun(wanted, count) {
  showOwn();
  if (!(await session.startNewRun(wanted.config))) return false;
  const initial = initialValues();
  batch(() => {
    chooseSampling(wanted.sampling, initial);
    settings.priority.value = Number(initial.priority);
    followRun();
  });
  if ((await submit(wanted.prompts.map((text) => ({ text })))) && count > 0) await command("step", { count });
  return true;
}
