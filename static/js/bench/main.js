// Where the benchmark page begins.

import { effect } from "../../vendor/signals/signals.js";
import { render } from "../../vendor/preact/preact.js";
import { themeChanged } from "../draw/colour.js";
import { connectSettings, settings } from "../model/settings.js";
import { html } from "../views/html.js";
import { App } from "./app.js";
import { acceptDrops } from "./drop.js";
import { link, TABLE } from "./link.js";
import { followRuns } from "./live.js";
import { fetchIndex, followChosen } from "./store.js";
import { t } from "./words.js";

connectSettings(location, history, localStorageOrNull(), globalThis, TABLE, link);

const root = document.documentElement;
effect(() => paint(settings.theme.value));
addEventListener("beforeprint", () => paint("light")); // paper is light, whatever the screen shows
addEventListener("afterprint", () => paint(settings.theme.value));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", themeChanged);
effect(() => {
  root.lang = settings.lang.value === "zh" ? "zh-CN" : "en";
  document.title = t("bench.page_title");
});

render(html`<${App} />`, document.getElementById("app"));
acceptDrops();
followChosen();
followRuns();
await fetchIndex();

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
