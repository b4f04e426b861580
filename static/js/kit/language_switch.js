// The button that writes the page in the next language.

import { settings } from "../state/settings.js";
import { language, languageAfter } from "../tell/language.js";
import { html } from "./html.js";

export function LanguageSwitch() {
  const next = languageAfter(language.value);
  return html`<button
    class="tool"
    id="btn-language"
    lang=${next.html}
    aria-label=${next.label}
    onClick=${() => (settings.lang.value = next.code)}
  >
    ${next.short}
  </button>`;
}
