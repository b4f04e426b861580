// What the server says of itself: its model and how far that is, its defaults and its scenes; what it has to show where
// it has no model.

import { adoptConfig, adoptLayout, differing } from "../state/run_settings.js";
import { settings } from "../state/settings.js";
import { connection, modelFacts, models, own, serverModel } from "../state/store.js";
import { Refusal } from "./client.js";
import { complain } from "./trouble.js";

/** @typedef {import("../core/wire.js").Answers["/api/model"]} Facts */

const AGAIN = 500; // ms after which another model than the first is asked for again

let asked = Promise.resolve();

/** Ask for the facts. The page works without them too, with presets of its own. */
export function askForFacts() {
  asked = asked.then(fetchFacts);
  return asked;
}

/** Fulfilled when the server has said what its model is, or did not. */
export const answeredFacts = () => asked;

async function fetchFacts() {
  const wanted = settings.model.peek();
  try {
    adoptFacts(await factsOf(wanted));
  } catch (error) {
    if (!wanted || !(error instanceof Refusal)) return; // it is not there yet
    if (error.code === "loading") {
      await new Promise((resolve) => setTimeout(resolve, AGAIN));
      return fetchFacts();
    }
    complain(error); // a link of another server's model, say: the first will do
    settings.model.value = null;
    return fetchFacts();
  }
  // now that the server's own settings are known, a link need not repeat them
  if (connection.value === "live" && own.log.value && !differing().length) adoptConfig(own.log.value.header.engine);
}

/**
 * The facts of a model; null: of the first. Throws Refusal when the server says why it has none, now or at all.
 *
 * @param {string | null} name
 * @returns {Promise<Facts>}
 */
export async function factsOf(name) {
  const answer = await fetch(name ? `api/model?model=${encodeURIComponent(name)}` : "api/model");
  const told = await answer.json();
  if (!answer.ok) throw new Refusal(told.error);
  return told;
}

/**
 * What the page asks for in a new run follows from the model.
 *
 * @param {Facts} facts
 */
export function adoptFacts(facts) {
  modelFacts.value = facts;
  adoptLayout(facts.options.tables.engine ?? []);
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
  const others = Object.values(models.peek()).filter((one) => one.place !== "first" || message.place !== "first");
  models.value = Object.fromEntries([...others, message].map((one) => [one.name, one]));
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
  models.value = {}; // a server that comes back may have others
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
