// A choice of few, all in sight: a setting's values side by side.

import { settings } from "../state/settings.js";
import { html } from "./html.js";

/**
 * `name`: the setting; `text(choice)`: its words; `usual`: what is shown where the setting is none of the choices.
 *
 * @param {{
 *   label: string, name: "answer" | "chart" | "lanes" | "overview", choices: readonly string[],
 *   text: (choice: string) => string,
 *   usual?: string,
 * }} props
 */
export function Segmented({ label, name, choices, text, usual }) {
  const setting = /** @type {import("../../vendor/signals/signals.js").Signal<string>} */ (settings[name]);
  const chosen = choices.includes(setting.value) ? setting.value : usual;
  return html`<span class="segmented-small" role="group" aria-label=${label}>
    ${choices.map(
      (choice) =>
        html`<button key=${choice} aria-pressed=${chosen === choice} id=${`${name}-${choice}`}
          onClick=${() => (setting.value = choice)}>${text(choice)}</button>`,
    )}
  </span>`;
}
