// Where the page begins: settings, theme, the view, the connection.

import { effect } from "../vendor/signals/signals.js";
import { render } from "../vendor/preact/preact.js";
import { themeChanged } from "./draw/colour.js";
import { startMotion } from "./draw/frame.js";
import { t } from "./i18n/index.js";
import { followDraft, followFocus, followSpeed } from "./model/actions.js";
import { listenToKeys } from "./model/keyboard.js";
import { followPlaying } from "./model/playback.js";
import { followSelection } from "./model/selection.js";
import { preparePaper } from "./model/paper.js";
import { connectSettings, settings } from "./model/settings.js";
import { offerTour } from "./model/tour.js";
import { take } from "./net/library.js";
import { start } from "./net/session.js";
import { App } from "./views/app.js";
import { html } from "./views/html.js";

connectSettings(location, history, localStorageOrNull());

const root = document.documentElement;
const dark = matchMedia("(prefers-color-scheme: dark)");
effect(() => {
  root.dataset.theme = settings.theme.value;
  themeChanged();
});
dark.addEventListener("change", themeChanged);
effect(() => {
  root.lang = settings.lang.value === "zh" ? "zh-CN" : "en";
  document.title = t("app.title");
});

render(html`<${App} />`, document.getElementById("app"));
startMotion();
listenToKeys();
followPlaying();
followSelection();
followSpeed();
followFocus();
followDraft();
preparePaper();
acceptDroppedTraces();
offerTour(localStorageOrNull());
start();

/** A `.kvtrace` dropped on the page is shown, and kept. */
function acceptDroppedTraces() {
  document.addEventListener("dragover", (event) => event.preventDefault());
  document.addEventListener("drop", (event) => {
    const file = event.dataTransfer?.files[0];
    if (!file) return;
    event.preventDefault();
    take(file);
  });
}

function localStorageOrNull() {
  try {
    return globalThis.localStorage;
  } catch {
    return null; // refused in some private windows
  }
}
