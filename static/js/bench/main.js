// Entry point of the benchmark page.

import { render } from "../../vendor/preact/preact.js";
import { effect } from "../../vendor/signals/signals.js";
import { t } from "../i18n/words.js";
import { html } from "../kit/html.js";
import { followTheme, localStorageOrNull, printLight } from "../kit/preferences.js";
import { followLanguage } from "../net/words.js";
import { connectSettings } from "../state/settings.js";
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
  const now = run.value; // shows the progress in the title of a background tab
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
