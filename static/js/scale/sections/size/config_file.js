// Input of the user's own model by its config.json: dropped, chosen or pasted. The server parses it and stores nothing.

import { useState } from "../../../../vendor/preact/hooks.js";
import { t } from "../../../i18n/words.js";
import { html } from "../../../kit/html.js";

/**
 * @typedef {{text: string, name: string}} Held
 * @typedef {{value: Held | null}} Config
 */

/** @param {{config: Config}} props */
export function ConfigFile({ config }) {
  const [over, setOver] = useState(false);
  const take = async (/** @type {File | undefined} */ file) => {
    if (file) config.value = { text: await file.text(), name: file.name };
  };
  const held = config.value;
  if (held)
    return html`<p class="scale-config" data-config=${held.name}>
      ${t("scale.size.config.held", { name: held.name || "config.json" })}${" "}
      <button class="link" onClick=${() => (config.value = null)}>${t("scale.size.config.drop")}</button>
    </p>`;
  const dragged = (/** @type {DragEvent} */ event) => {
    event.preventDefault();
    setOver(true);
  };
  const dropped = (/** @type {DragEvent} */ event) => {
    event.preventDefault();
    setOver(false);
    take(event.dataTransfer?.files[0]);
  };
  const pasted = (/** @type {Event & {currentTarget: HTMLTextAreaElement}} */ event) => {
    const text = event.currentTarget.value.trim();
    if (text) config.value = { text, name: "" };
  };
  const chosen = (/** @type {Event & {currentTarget: HTMLInputElement}} */ event) =>
    take(event.currentTarget.files?.[0]);
  return html`<details
    class="scale-config"
    data-over=${over}
    onDragOver=${dragged}
    onDragLeave=${() => setOver(false)}
    onDrop=${dropped}
  >
    <summary>${t("scale.size.config")}</summary>
    <p class="hint">${t("scale.size.config.hint")}</p>
    <label>
      ${t("scale.size.config.file")}${" "}
      <input id="scale-config-file" type="file" accept=".json" onChange=${chosen} />
    </label>
    <label>
      ${t("scale.size.config.paste")}
      <textarea id="scale-config-text" rows="4" spellcheck=${false} onChange=${pasted}></textarea>
    </label>
  </details>`;
}
