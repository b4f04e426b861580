// The page /scale: a line at the top, the sections' names at the left, section after section.

import { html } from "../kit/html.js";
import { LanguageSwitch, ThemeButton } from "../kit/preferences.js";
import { Tooltip } from "../kit/tooltip.js";
import { t } from "../tell/words.js";
import { SECTIONS } from "./sections.js";

export function App() {
  return html`<a class="skip" href="#scale-main">${t("scale.skip")}</a>
    <${Header} />
    <div class="scale bench">
      <nav class="scale-list" aria-label=${t("scale.sections")}>
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
      <a href="/"><span class="wordmark-kv"><i>K</i><i>V</i></span> ${t("app.title").replace("KV ", "")}</a>${" "}
      <span class="bench-name">${t("scale.title")}</span>
    </h1>
    <div class="header-tools">
      <a class="tool" href="/">${t("scale.to_stage")}</a>
      <${LanguageSwitch} />
      <${ThemeButton} />
    </div>
  </header>`;
}
