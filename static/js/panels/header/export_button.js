// The way to the pictures.

import { exportOpen, toggleExport } from "../../control/export_side.js";
import { html } from "../../kit/html.js";
import { Icon } from "../../kit/icon.js";
import { t } from "../../tell/words.js";

export function ExportButton() {
  return html`<button
    class="tool"
    id="btn-export"
    aria-expanded=${exportOpen.value}
    aria-label=${t("header.export")}
    title=${t("header.export")}
    onClick=${toggleExport}
  >
    <${Icon} name="picture" />
  </button>`;
}
