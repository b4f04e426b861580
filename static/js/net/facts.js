// What the server says of itself: its model, its defaults and its scenes; what it has to show where it has no model.

import { adoptConfig, differing } from "../state/run_settings.js";
import { connection, modelFacts, own } from "../state/store.js";

/** Ask for the facts. The page works without them too, with presets of its own. */
export async function fetchModelFacts() {
  try {
    const answer = await fetch("api/model");
    if (answer.ok) modelFacts.value = await answer.json();
  } catch {
    return;
  }
  // now that the server's own settings are known, a link need not repeat them
  if (connection.value === "live" && own.log.value && !differing().length) adoptConfig(own.log.value.header.engine);
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
