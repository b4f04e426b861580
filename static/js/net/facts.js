// Facts about the server: its models and their loading status, its defaults and scenes, and its first recording if it
// has no model.

import { adoptConfig, adoptLayout, differing } from "../state/run_settings.js";
import { settings } from "../state/settings.js";
import { connection, modelFacts, models, own, serverModel } from "../state/store.js";
import { Refusal } from "./client.js";
import { showFailure } from "./errors.js";

/** @typedef {import("../core/wire.js").Answers["/api/model"]} Facts */

const RETRY_MS = 500; // until the facts of a loading model are requested again

let pending = Promise.resolve();

/** Request the facts. Without them, the page uses its own presets. */
export function askForFacts() {
  pending = pending.then(fetchFacts);
  return pending;
}

/** Return a promise that resolves when the request for the facts has succeeded or failed. */
export const answeredFacts = () => pending;

async function fetchFacts() {
  const model = settings.model.peek();
  try {
    adoptFacts(await factsOf(model));
  } catch (error) {
    if (!model || !(error instanceof Refusal)) return; // not loaded yet
    if (error.code === "loading") {
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      return fetchFacts();
    }
    showFailure(error); // such as a model in another server's link: use the first instead
    settings.model.value = null;
    return fetchFacts();
  }
  // with the server's defaults known, the link need not repeat them
  if (connection.value === "live" && own.log.value && !differing().length) adoptConfig(own.log.value.header.engine);
}

/**
 * Fetch the facts of a model, or with null of the first. Throws Refusal with the server's reason if the model is
 * unavailable.
 * @param {string | null} name
 * @returns {Promise<Facts>}
 */
export async function factsOf(name) {
  const answer = await fetch(name ? `api/model?model=${encodeURIComponent(name)}` : "api/model");
  const body = await answer.json();
  if (!answer.ok) throw new Refusal(body.error);
  return body;
}

/** Store a model's facts and adopt its settings for a new run. @param {Facts} facts */
export function adoptFacts(facts) {
  modelFacts.value = facts;
  adoptLayout(facts.options.tables.engine ?? []);
}

// ── Loading status ───────────────────────────────────────────────────────────────────────────────────────────────────

let numLost = 0; // lost numLost
let updates = Promise.resolve();

/**
 * Handle a model's loading status. The first model counts as loaded only with its facts, since settings of a run may
 * depend on them.
 * @param {import("../core/wire.js").ModelStatus} message
 */
export function receiveModel(message) {
  const others = Object.values(models.peek()).filter((one) => one.place !== "first" || message.place !== "first");
  models.value = Object.fromEntries([...others, message].map((one) => [one.name, one]));
  if (message.place !== "first") return;
  const before = numLost;
  updates = updates.then(async () => {
    if (message.state === "ready") await pending;
    if (message.state === "ready" && !modelFacts.peek()) await askForFacts();
    if (before === numLost) serverModel.value = message;
  });
}

/** Handle a lost connection. A failed status stays, as the server exits after a failed load. */
export function forgetModel() {
  numLost += 1;
  models.value = {}; // the server may return with other models
  if (serverModel.peek()?.state !== "failed") serverModel.value = null;
}

/**
 * Return the recording to show if there is no run: one named on the command line, else a bundled one.
 * @returns {Promise<string | null>} id of the recording; null if there is none
 */
export async function firstRecording() {
  /** @type {import("../core/wire.js").Answers["/api/recordings"]} */
  const { recordings } = await (await fetch("api/recordings")).json();
  const bySource = ["file", "shipped", "library"].map((source) => recordings.find((one) => one.source === source));
  return bySource.find(Boolean)?.id ?? null;
}
