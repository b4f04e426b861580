// Room view for projection: the scene's card, stage and pool, and the sentence, as large as the screen allows.

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
import { Around } from "./overlays.js";

const DRAWN_FOR = { width: 1280, height: 720 }; // px of the layout; larger screens scale it up

export function Room() {
  useLayoutEffect(enlarge, []); // before the first paint
  return html`<${Card} />
    <${Transport} />
    <main class="regions room-regions" data-region="stage"><${Stage} /><${Memory} /></main>
    <${Around} />`;
}

function Card() {
  const all = scenes.value;
  const now = scene.value;
  const at = now ? all.indexOf(now) : -1;
  const text = now ? (sceneEnd.value ?? inLanguage(now.watch)) : t("room.choose");
  return html`<header class="room-card" id="room-card">
    <div class="room-scene">
      ${now ? html`<h1 class="room-title">${inLanguage(now.title)}</h1>` : null}
      <p class="room-watch" data-over=${sceneEnd.value !== null}>${text}</p>
    </div>
    <nav class="room-tools">
      <button class="tool" id="room-previous" disabled=${at <= 0} aria-label=${t("room.previous")}
        onClick=${() => toScene(-1)}><${Icon} name="back" /></button>
      <span class="num">${now ? t("room.position", { i: at + 1, n: all.length }) : ""}</span>
      <button class="tool" id="room-next" disabled=${at >= all.length - 1} aria-label=${t("room.next")}
        onClick=${() => toScene(1)}><${Icon} name="forward" /></button>
      <button class="quiet" id="room-leave" onClick=${toggle}>${t("room.leave")}</button>
    </nav>
  </header>`;
}

/** Scale the page: marks of 12 px at 1280 × 720 have 18 px at 1920 × 1080, and canvases stay sharp. */
function enlarge() {
  const root = document.documentElement;
  const fit = () => {
    const scale = Math.max(1, Math.min(innerWidth / DRAWN_FOR.width, innerHeight / DRAWN_FOR.height));
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
