// Present view for projection: the scene's card, stage and pool, and the sentence, as large as the screen allows.

import { useLayoutEffect } from "../../vendor/preact/hooks.js";
import { toggle, toScene } from "../control/present.js";
import { scene, sceneEnd, scenes } from "../control/restart.js";
import { inLanguage, t } from "../i18n/words.js";
import { sharpen } from "../kit/canvas.js";
import { themeChanged } from "../kit/colour.js";
import { html } from "../kit/html.js";
import { Icon } from "../kit/icon.js";
import { Panel as Memory } from "../panels/memory/panel.js";
import { Panel as Stage } from "../panels/stage/panel.js";
import { Panel as Transport } from "../panels/transport/panel.js";
import { Overlays } from "./overlays.js";

const LAYOUT_SIZE = { width: 1280, height: 720 }; // px; larger screens scale the layout up

export function PresentView() {
  useLayoutEffect(enlarge, []); // before the first paint
  return html`<${Card} />
    <${Transport} />
    <main class="regions present-regions" data-region="stage"><${Stage} /><${Memory} /></main>
    <${Overlays} />`;
}

function Card() {
  const all = scenes.value;
  const now = scene.value;
  const at = now ? all.indexOf(now) : -1;
  const text = now ? (sceneEnd.value ?? inLanguage(now.watch)) : t("present.choose");
  return html`<header class="present-card" id="present-card">
    <div class="present-scene">
      ${now ? html`<h1 class="present-title">${inLanguage(now.title)}</h1>` : null}
      <p class="present-watch" data-over=${sceneEnd.value !== null}>${text}</p>
    </div>
    <nav class="present-tools">
      <button class="tool" id="present-previous" disabled=${at <= 0} aria-label=${t("present.previous")}
        onClick=${() => toScene(-1)}><${Icon} name="back" /></button>
      <span class="num">${now ? t("present.position", { i: at + 1, n: all.length }) : ""}</span>
      <button class="tool" id="present-next" disabled=${at >= all.length - 1} aria-label=${t("present.next")}
        onClick=${() => toScene(1)}><${Icon} name="forward" /></button>
      <button class="quiet" id="present-leave" onClick=${toggle}>${t("present.leave")}</button>
    </nav>
  </header>`;
}

/** Scale the page: text of 12 px at 1280 × 720 has 18 px at 1920 × 1080. Canvases stay sharp. */
function enlarge() {
  const root = document.documentElement;
  const fit = () => {
    const scale = Math.max(1, Math.min(innerWidth / LAYOUT_SIZE.width, innerHeight / LAYOUT_SIZE.height));
    root.style.setProperty("--room-scale", String(scale));
    sharpen(scale * devicePixelRatio);
    themeChanged(); // repaints everything
  };
  fit();
  addEventListener("resize", fit);
  return () => {
    removeEventListener("resize", fit);
    root.style.removeProperty("--room-scale");
    sharpen(1);
    themeChanged();
  };
}
