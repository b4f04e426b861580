// Whether the side with the pictures is open.

import { effect, signal } from "../../vendor/signals/signals.js";
import { helpOpen } from "./keyboard.js";

export const exportOpen = signal(false);

effect(() => {
  if (helpOpen.value) exportOpen.value = false; // both come in at the same place
});

export function toggleExport() {
  helpOpen.value = false;
  exportOpen.value = !exportOpen.value;
}
