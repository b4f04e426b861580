// Where the page /scale begins.

import { render } from "../../vendor/preact/preact.js";
import { effect } from "../../vendor/signals/signals.js";
import { html } from "../kit/html.js";
import { followTheme, localStorageOrNull } from "../kit/preferences.js";
import { printLight } from "../kit/print_light.js";
import { followLanguage } from "../net/words.js";
import { connectSettings } from "../state/settings.js";
import { t } from "../tell/words.js";
import { App } from "./app.js";
import { arrive } from "./arrive.js";
import { link, TABLE } from "./link.js";

connectSettings(location, history, localStorageOrNull(), globalThis, TABLE, link);

followTheme();
printLight();
await followLanguage("words/scale");
effect(() => {
  document.title = t("scale.page_title");
});

const app = document.getElementById("app");
if (app) {
  render(html`<${App} />`, app);
  arrive(app);
}
