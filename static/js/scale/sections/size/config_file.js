// Input of a user's model by its config.json: dropped, chosen or pasted. The server parses it and stores nothing.

import { useState } from "../../../../vendor/preact/hooks.js";
import { signal } from "../../../../vendor/signals/signals.js";
import { t } from "../../../i18n/words.js";
import { html } from "../../../kit/html.js";
import { shortened } from "../../inputs.js";

/**
 * @typedef {{text: string, name: string}} Held
 * @typedef {{value: Held | null}} Config
 */

/**
 * Return the holder of the current config.json. A short one is stored in the link only, a long one in memory.
 * @param {import("../../../../vendor/signals/signals.js").Signal<string>} linked
 * @returns {Config}
 */
export function configIn(linked) {
  const large = signal(/** @type {Held | null} */ (null));
  const called = signal("");
  return {
    get value() {
      return large.value ?? (linked.value ? { text: linked.value, name: called.value } : null);
    },
    set value(found) {
      const short = found && shortened(found.text);
      called.value = found?.name ?? "";
      linked.value = short ?? "";
      large.value = short ? null : found;
    },
  };
}

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
