// Entry point of the page /scale.

import { render } from "../../vendor/preact/preact.js";
import { effect } from "../../vendor/signals/signals.js";
import { t } from "../i18n/words.js";
import { html } from "../kit/html.js";
import { followTheme, LanguageSwitch, localStorageOrNull, printLight, ThemeButton } from "../kit/preferences.js";
import { Tooltip } from "../kit/tooltip.js";
import { followLanguage } from "../net/words.js";
import { connectSettings, TABLE as PAGE, settings } from "../state/settings.js";
import { inputs } from "./inputs.js";
import { TABLE as PAPER, Section as Paper } from "./sections/paper/section.js";
import { TABLE as PLACEMENT, Section as Placement } from "./sections/placement/section.js";
import { TABLE as QUEUES, Section as Queues } from "./sections/queues/section.js";
import { TABLE as ROOFLINE, Section as Roofline } from "./sections/roofline/section.js";
import { TABLE as SIZE, Section as Size } from "./sections/size/section.js";

/** @import {SettingTable} from "../state/settings.js" */

/**
 * Section of the page. `id` is the name of its folder and anchor, and of the words `scale.<id>` (title) and
 * `scale.<id>.lead`. `table`: the section's settings, stored in the link; names are unique over all sections.
 *
 * @typedef {{
 *   id: string, Section: import("../kit/html.js").Component, table: SettingTable
 * }} SectionEntry
 */

/** @type {SectionEntry[]} */
const SECTIONS = [
  { id: "size", Section: Size, table: SIZE },
  { id: "roofline", Section: Roofline, table: ROOFLINE },
  { id: "queues", Section: Queues, table: QUEUES },
  { id: "placement", Section: Placement, table: PLACEMENT },
  { id: "paper", Section: Paper, table: PAPER },
];

/** @type {SettingTable} */
const TABLE = Object.assign({ lang: PAGE.lang, theme: PAGE.theme }, ...SECTIONS.map(({ table }) => table));

/** Signals of all settings, by name. @type {Record<string, import("../../vendor/signals/signals.js").Signal<any>>} */
const link = { lang: settings.lang, theme: settings.theme, ...inputs(TABLE, ["lang", "theme"]) };

const INTERACTIONS = ["wheel", "touchstart", "pointerdown", "keydown"];

/**
 * Scroll to the element named by the URL's fragment, and keep it in view until the user interacts.
 * @param {Element} page element that grows while sections load
 */
function scrollToTarget(page) {
  const target = document.getElementById(location.hash.slice(1));
  if (!target) return;
  const sizes = new ResizeObserver(() => target.scrollIntoView());
  sizes.observe(page); // also calls back immediately
  const done = new AbortController();
  for (const name of INTERACTIONS)
    addEventListener(
      name,
      () => {
        sizes.disconnect();
        done.abort();
      },
      { signal: done.signal, passive: true },
    );
}

function App() {
  return html`<a class="skip" href="#scale-main">${t("scale.skip")}</a>
    <${Header} />
    <div class="scale bench">
      <nav class="bench-list scale-list" aria-label=${t("scale.sections")}>
        ${SECTIONS.map(({ id }) => html`<a key=${id} href=${`#${id}`}>${t(`scale.${id}`)}</a>`)}
      </nav>
      <main id="scale-main" tabindex="-1">
        ${SECTIONS.map(
          ({ id, Section }) => html`<section key=${id} id=${id} class="scale-section" aria-labelledby=${`${id}-title`}>
            <h2 id=${`${id}-title`}>${t(`scale.${id}`)}</h2>
            <p class="bench-lead">${t(`scale.${id}.lead`)}</p>
            <${Section} />
          </section>`,
        )}
      </main>
    </div>
    <${Tooltip} />`;
}

function Header() {
  return html`<header class="header">
    <h1 class="wordmark">
      <a href="./"><span class="wordmark-kv"><i>K</i><i>V</i></span><span
        class="wordmark-rest"> ${t("app.title").replace("KV ", "")}</span></a>${" "}
      <span class="bench-name">${t("scale.title")}</span>
    </h1>
    <div class="header-tools">
      <a class="tool to-stage" href="./">${t("scale.to_stage")}</a>
      <${LanguageSwitch} />
      <${ThemeButton} />
    </div>
  </header>`;
}

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
  scrollToTarget(app);
}
