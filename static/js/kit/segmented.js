// A choice of few, all in sight: a setting's values side by side.

import { settings } from "../state/settings.js";
import { html } from "./html.js";

/**
 * `name`: the setting; `text(choice)`: its words.
 *
 * @param {{
 *   label: string, name: "answer" | "chart" | "lanes" | "overview", choices: readonly string[],
 *   text: (choice: string) => string,
 * }} props
 */
export function Segmented({ label, name, choices, text }) {
  const setting = /** @type {import("../../vendor/signals/signals.js").Signal<string>} */ (settings[name]);
  return html`<span class="segmented-small" role="group" aria-label=${label}>
    ${choices.map(
      (choice) =>
        html`<button key=${choice} aria-pressed=${setting.value === choice} id=${`${name}-${choice}`}
          onClick=${() => (setting.value = choice)}>${text(choice)}</button>`,
    )}
  </span>`;
}
