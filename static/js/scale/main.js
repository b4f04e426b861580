// Where the page /scale begins.

import { render } from "../../vendor/preact/preact.js";
import { effect } from "../../vendor/signals/signals.js";
import { themeChanged } from "../kit/colour.js";
import { html } from "../kit/html.js";
import { followLanguage } from "../net/words.js";
import { connectSettings, settings } from "../state/settings.js";
import { t } from "../tell/words.js";
import { App } from "./app.js";
import { link, TABLE } from "./link.js";

connectSettings(location, history, localStorageOrNull(), globalThis, TABLE, link);

const root = document.documentElement;
effect(() => paint(settings.theme.value));
addEventListener("beforeprint", () => paint("light")); // paper is light, whatever the screen shows
addEventListener("afterprint", () => paint(settings.theme.value));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", themeChanged);
await followLanguage("words/scale");
effect(() => {
  document.title = t("scale.page_title");
});

const app = document.getElementById("app");
if (app) render(html`<${App} />`, app);

/** @param {string} theme */
function paint(theme) {
  root.dataset.theme = theme;
  themeChanged();
}

function localStorageOrNull() {
  try {
    return globalThis.localStorage;
  } catch {
    return null; // refused in some private windows
  }
}
