// The sides for export and for models, one of which is open at a time. Another model for the page's run: it is read if
// it is not there, and a new run on it takes the place of the present one.

import { batch, effect, signal } from "../../vendor/signals/signals.js";
import { Refusal } from "../net/client.js";
import { adoptFacts, factsOf } from "../net/facts.js";
import { adoptModel } from "../state/run_settings.js";
import { settings } from "../state/settings.js";
import { firstModel, modelFacts, own } from "../state/store.js";
import { t } from "../tell/words.js";
import { applyConfig } from "./anew.js";
import { helpOpen } from "./keyboard.js";

export const exportOpen = signal(false);
export const modelsOpen = signal(false);

effect(() => {
  if (helpOpen.value) exportOpen.value = modelsOpen.value = false; // all come in at the same place
});

export function toggleExport() {
  helpOpen.value = modelsOpen.value = false;
  exportOpen.value = !exportOpen.value;
}

export function toggleModels() {
  helpOpen.value = exportOpen.value = false;
  modelsOpen.value = !modelsOpen.value;
}

const AGAIN = 500; // ms after which a model that is still on its way is asked for again

/** The model that was chosen and is not there yet; null: none. */
export const awaited = signal(/** @type {string | null} */ (null));
/** Why the one chosen last could not be had, as the server said it; null. */
export const refused = signal(/** @type {{name: string, text: string} | null} */ (null));

/**
 * Whether there is a new run on it now.
 *
 * @param {string} name
 */
export async function chooseModel(name) {
  if (awaited.peek()) return false;
  batch(() => {
    awaited.value = name;
    refused.value = null;
  });
  const before = own.log.peek();
  try {
    const [facts, had] = [await waitFor(name), modelFacts.peek()];
    batch(() => {
      settings.model.value = name === firstModel.peek() ? null : name;
      adoptFacts(facts);
    });
    const begun = await applyConfig(); // its log may come later than the answer
    if (!begun && before) {
      if (had) adoptFacts(had); // the run stays, and why was said
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

/**
 * The facts of a model, which is read meanwhile.
 *
 * @param {string} name
 */
async function waitFor(name) {
  for (;;)
    try {
      return await factsOf(name);
    } catch (error) {
      if (!(error instanceof Refusal && error.code === "loading")) throw error;
      await new Promise((resolve) => setTimeout(resolve, AGAIN));
    }
}
