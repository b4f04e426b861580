// What the server says of itself: its model and how far that is, its defaults and its scenes; what it has to show where
// it has no model.

import { adoptConfig, adoptLayout, differing } from "../state/run_settings.js";
import { connection, modelFacts, models, own, serverModel } from "../state/store.js";

let asked = Promise.resolve();

/** Ask for the facts. The page works without them too, with presets of its own. */
export function askForFacts() {
  asked = asked.then(fetchFacts);
  return asked;
}

/** Fulfilled when the server has said what its model is, or did not. */
export const answeredFacts = () => asked;

async function fetchFacts() {
  try {
    const answer = await fetch("api/model");
    if (!answer.ok) return; // its model is not there yet
    modelFacts.value = await answer.json();
  } catch {
    return;
  }
  adoptLayout(modelFacts.value?.options.tables.engine ?? []);
  // now that the server's own settings are known, a link need not repeat them
  if (connection.value === "live" && own.log.value && !differing().length) adoptConfig(own.log.value.header.engine);
}

// ── How far the model is ─────────────────────────────────────────────────────────────────────────────────────────────

let connections = 0; // that went away
let heard = Promise.resolve();

/**
 * The server says how far one of its models is. That the first is there holds as soon as its facts are here: the
 * settings of a run may follow from them.
 *
 * @param {import("../core/wire.js").ModelStatus} message
 */
export function heardModel(message) {
  models.value = { ...models.peek(), [message.name]: message };
  if (message.place !== "first") return;
  const during = connections;
  heard = heard.then(async () => {
    if (message.state === "ready") await asked;
    if (message.state === "ready" && !modelFacts.peek()) await askForFacts();
    if (during === connections) serverModel.value = message;
  });
}

/** The connection went away. Why the model could not be had stays known: a server ends for that. */
export function forgetModel() {
  connections += 1;
  if (serverModel.peek()?.state !== "failed") serverModel.value = null;
}

/**
 * The recording to show where there is nothing else: one named on the command line, else one that comes along.
 *
 * @returns {Promise<string | null>} its id; null when there is none
 */
export async function firstRecording() {
  /** @type {import("../core/wire.js").Answers["/api/recordings"]} */
  const { recordings } = await (await fetch("api/recordings")).json();
  const bySource = ["file", "shipped", "library"].map((source) => recordings.find((one) => one.source === source));
  return bySource.find(Boolean)?.id ?? null;
}
