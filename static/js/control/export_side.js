// Whether the side with the pictures is open, or that with the server's models: one at a time, and not beside the help.

import { effect, signal } from "../../vendor/signals/signals.js";
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
