// User preferences that apply to every page.

import { effect } from "../../vendor/signals/signals.js";
import { language, languageAfter } from "../i18n/language.js";
import { t } from "../i18n/words.js";
import { settings } from "../state/settings.js";
import { themeChanged } from "./colour.js";
import { html } from "./html.js";
import { Icon } from "./icon.js";

const ORDER = /** @type {const} */ (["auto", "light", "dark"]);

export function followTheme() {
  effect(() => paint(settings.theme.value));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", themeChanged);
}

/** @param {string} theme */
function paint(theme) {
  document.documentElement.dataset.theme = theme;
  themeChanged();
}

export function ThemeButton() {
  const now = settings.theme.value;
  const text = t("header.theme", { theme: t(`header.theme.${now}`) });
  const next = () => (settings.theme.value = ORDER[(ORDER.indexOf(now) + 1) % ORDER.length]);
  return html`<button class="tool" id="btn-theme" onClick=${next} aria-label=${text} title=${text}><${Icon} name="theme"
    /></button>`;
}

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

export function localStorageOrNull() {
  try {
    return globalThis.localStorage;
  } catch {
    return null;
  }
}

/** Use the light theme for printing. */
export function printLight() {
  addEventListener("beforeprint", () => paint("light"));
  addEventListener("afterprint", () => paint(settings.theme.value));
}
