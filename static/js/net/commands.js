// Commands that the page sends for the followed run.

import { shownRun } from "../state/run.js";
import { wantedSampling } from "../state/run_settings.js";
import { settings } from "../state/settings.js";
import { connection, log, modelFacts, ownIsShown, whileBusy } from "../state/store.js";
import { asksForControl, createdSessions, rememberSession } from "./created_sessions.js";
import { session } from "./session.js";

/** @import {Events, Tokenized} from "../core/wire.js" */

/** @typedef {Exclude<keyof Events, "create" | "join" | "tokenize" | `bench_${string}`>} Command */

const FORK_TIMEOUT = 30 * 60_000; // ms; replaying a run takes as long as the run did
const FOCUS_DELAY = 250; // ms without another choice of a layer

/** Commands that change a run for all its viewers. @type {readonly string[]} */
const DRIVING = ["submit", "step", "prefill", "run", "abort", "reset", "configure"];

/** Return whether another browser created the run. On a class's stage, the class owns it. @param {string} theater */
export const isForeign = (theater) => !settings.class.peek() && !createdSessions.peek().includes(theater);

/**
 * Send a command for the followed run, unless `body` names another session.
 * @template {Command} E
 * @param {E} event
 * @param {Partial<Events[E]["request"]>} [body]
 * @param {(error: unknown) => void} [refused] gets the error, which is also displayed
 * @returns {Promise<Events[E]["answer"] | null>} null if the command was refused or the user must confirm it
 */
export async function command(event, body = {}, refused = () => {}) {
  const { client, run } = session;
  if (!client || !run) return null;
  if (!("theater" in body) && DRIVING.includes(event) && isForeign(run.theater)) {
    asksForControl.value = true;
    return null;
  }
  const message = /** @type {Events[E]["request"]} */ ({ theater: run.theater, ...body });
  const resets = event === "reset" || event === "configure";
  if (resets) run.resetting += 1;
  try {
    const answer = await whileBusy(() => client.ask(event, message, event === "fork" ? { timeout: FORK_TIMEOUT } : {}));
    if (event === "fork" && "theater" in answer) rememberSession(String(answer.theater));
    if ("epoch" in answer && resets) run.ownEpoch = answer.epoch;
    return answer;
  } catch (error) {
    session.reportFailure(error, client);
    refused(error);
    return null;
  } finally {
    if (resets) run.resetting -= 1;
  }
}

/** Submit prompts, all or none. @param {{text: string, after_steps?: number}[]} drafts */
export function submit(drafts) {
  const priority = settings.priority.value;
  const prompts = drafts.map((prompt) => (priority ? { ...prompt, priority } : prompt));
  return command("submit", { prompts, sampling: wantedSampling() });
}

/** @type {ReturnType<typeof setTimeout> | undefined} */
let focusTimer;

/** Set the layer that is captured first when the byte budget is limited. @param {number} layer */
export function focusOn(layer) {
  clearTimeout(focusTimer);
  focusTimer = setTimeout(async () => {
    const layers = [layer];
    const { client, run } = session;
    if (connection.value !== "live" || !client || !run || run.focused?.[0] === layer) return;
    run.focused = layers;
    try {
      await client.ask("focus", { theater: run.theater, layers, heads: null });
    } catch {
      run.focused = null; // only captures may be less complete
    }
  }, FOCUS_DELAY);
}

/** Return whether the server has the shown run's model and can tokenize for it. @returns {boolean} */
export function canTokenize() {
  const { header } = log.value ?? {};
  if (!header || !["live", "replay"].includes(connection.value) || !session.client?.connected) return false;
  if (ownIsShown.value && connection.value === "live") return true;
  const { model, tokenizer } = modelFacts.value ?? {};
  return model?.name === header.model.name && tokenizer?.vocab_size === header.tokenizer.vocab_size;
}

/**
 * Tokenize `text` for the shown run's model, else for the server's first. Returns null if the server does not respond.
 * @param {string} text
 * @returns {Promise<Tokenized | null>}
 */
export async function tokensOf(text) {
  const { client, run } = session;
  if (!client?.connected) return null;
  const theater = run && !run.isRecording && ownIsShown.peek() ? run.theater : null;
  try {
    return await client.ask("tokenize", { text, theater });
  } catch {
    return null;
  }
}

/**
 * Query the run's model: `recompute` for the residual stream of one position in one layer, `projection` for the weights
 * of one head's query, key or value. Returns the error message if refused.
 * @template {"recompute" | "projection"} E
 * @param {E} event
 * @param {Omit<Events[E]["request"], "theater">} message
 * @returns {Promise<Events[E]["answer"] | string>}
 */
export async function askModel(event, message) {
  const { client, run } = session;
  if (!client || !run) return "";
  try {
    return await client.ask(event, /** @type {Events[E]["request"]} */ ({ theater: run.theater, ...message }));
  } catch (error) {
    return error instanceof Error ? error.message : "";
  }
}

/**
 * Fetch one layer's arrays of a record of the followed run, or all layers (null), once. Views are repainted when they
 * arrive. Arrays of other runs are sent with their records or not at all.
 * @param {number} index
 * @param {number | null} layer
 */
export async function requestLayer(index, layer) {
  if (ownIsShown.peek()) await session.run?.requestArrays(index, layer);
}

/**
 * Return the server address of `resource` for the shown run; null if the run is not on the server.
 * @param {"trace" | "export.html" | "query" | "what_if" | "survey/classes"} resource the log so far, a page with it, or
 * an endpoint that answers queries on it
 */
export function runAddress(resource) {
  const theater = ownIsShown.value ? session.run?.theater : shownRun.value.theater.value;
  return theater ? `api/theaters/${theater}/${resource}` : null;
}
