// A choice of few, all in sight: a setting's values side by side.

import { settings } from "../state/settings.js";
import { html } from "./html.js";

/** `name`: the setting; `text(choice)`: its words. */
export function Segmented({ label, name, choices, text }) {
  return html`<span class="segmented-small" role="group" aria-label=${label}>
    ${choices.map(
      (choice) =>
        html`<button key=${choice} aria-pressed=${settings[name].value === choice} id=${`${name}-${choice}`}
          onClick=${() => (settings[name].value = choice)}>${text(choice)}</button>`,
    )}
  </span>`;
}
