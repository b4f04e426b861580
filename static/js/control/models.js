// Export and models sidebars, of which at most one is open; and switching the run's model, which loads it and then
// starts a new run on it.

import { batch, effect, signal } from "../../vendor/signals/signals.js";
import { t } from "../i18n/words.js";
import { Refusal } from "../net/client.js";
import { adoptFacts, factsOf } from "../net/facts.js";
import { adoptModel } from "../state/run_settings.js";
import { settings } from "../state/settings.js";
import { firstModel, modelFacts, own } from "../state/store.js";
import { helpOpen } from "./keyboard.js";
import { applyConfig } from "./restart.js";

export const exportOpen = signal(false);
export const modelsOpen = signal(false);

effect(() => {
  if (helpOpen.value) exportOpen.value = modelsOpen.value = false; // all are displayed at the same place
});

export function toggleExport() {
  helpOpen.value = modelsOpen.value = false;
  exportOpen.value = !exportOpen.value;
}

export function toggleModels() {
  helpOpen.value = exportOpen.value = false;
  modelsOpen.value = !modelsOpen.value;
}

const RETRY_MS = 500; // until a loading model is requested again

/** The chosen model while it is loading, or null. */
export const awaited = signal(/** @type {string | null} */ (null));
/** The server's reason for refusing the model chosen last, or null. */
export const refused = signal(/** @type {{name: string, text: string} | null} */ (null));

/** Switch to a model. Returns whether there is a new run on it. @param {string} name */
export async function chooseModel(name) {
  if (awaited.peek()) return false;
  batch(() => {
    awaited.value = name;
    refused.value = null;
  });
  const before = own.log.peek();
  try {
    const [facts, previous] = [await waitFor(name), modelFacts.peek()];
    batch(() => {
      settings.model.value = name === firstModel.peek() ? null : name;
      adoptFacts(facts);
    });
    const begun = await applyConfig(); // the new log may arrive after the response
    if (!begun && before) {
      if (previous) adoptFacts(previous); // the run stays; the reason has been displayed
      adoptModel(before.header.model.name);
    }
    return begun;
  } catch (error) {
    const text = error instanceof Refusal ? error.message : t("error.no_answer");
    refused.value = { name, text };
    return false;
  } finally {
    awaited.value = null;
  }
}

/** Return the facts of a model after it has loaded. @param {string} name */
async function waitFor(name) {
  for (;;)
    try {
      return await factsOf(name);
    } catch (error) {
      if (!(error instanceof Refusal && error.code === "loading")) throw error;
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
}
