// The way to the pictures. What makes them is fetched when it is first asked for.

import { effect, signal } from "../../vendor/signals/signals.js";
import { t } from "../i18n/index.js";
import { helpOpen } from "../model/keyboard.js";
import { toast } from "../model/store.js";
import { html } from "./html.js";
import { Icon } from "./words.js";

export const exportOpen = signal(false);
const loaded = signal(null); // the component, once it is here

effect(() => {
  if (helpOpen.value) exportOpen.value = false; // both come in at the same place
});

async function toggle() {
  try {
    loaded.value ??= (await import("./export.js")).Export;
  } catch {
    return toast(t("error.no_answer"), "error");
  }
  helpOpen.value = false;
  exportOpen.value = !exportOpen.value;
}

export function ExportButton() {
  return html`<button class="tool" id="btn-export" aria-expanded=${exportOpen.value} aria-label=${t("header.export")} title=${t("header.export")} onClick=${toggle}>
    <${Icon} name="picture" />
  </button>`;
}

export function ExportSide() {
  return exportOpen.value ? html`<${loaded.value} />` : null;
}
