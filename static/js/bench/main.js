// Where the benchmark page begins.

import { render } from "../../vendor/preact/preact.js";
import { effect } from "../../vendor/signals/signals.js";
import { html } from "../kit/html.js";
import { followTheme, localStorageOrNull } from "../kit/preferences.js";
import { printLight } from "../kit/print_light.js";
import { followLanguage } from "../net/words.js";
import { connectSettings } from "../state/settings.js";
import { t } from "../tell/words.js";
import { App } from "./app.js";
import { acceptDrops } from "./drop.js";
import { link, TABLE } from "./link.js";
import { followRuns, run } from "./live.js";
import { fetchIndex, followChosen } from "./store.js";

connectSettings(location, history, localStorageOrNull(), globalThis, TABLE, link);

followTheme();
printLight();
await followLanguage("words/bench");
effect(() => {
  const now = run.value; // who went to another tab sees there how far it is
  const title = t("bench.page_title");
  document.title =
    now?.state === "running" && now.total ? `${Math.floor((100 * now.done) / now.total)} % · ${title}` : title;
});

const app = document.getElementById("app");
if (app) render(html`<${App} />`, app);
acceptDrops();
followChosen();
followRuns();
await fetchIndex();
