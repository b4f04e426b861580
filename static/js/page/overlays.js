// Overlays of the page: help, export, models, the write animation, and the tooltip.

import { useLayoutEffect } from "../../vendor/preact/hooks.js";
import { effect, signal } from "../../vendor/signals/signals.js";
import { helpOpen } from "../control/keyboard.js";
import { exportOpen, modelsOpen } from "../control/models.js";
import { html } from "../kit/html.js";
import { lazy, lazyPanel } from "../kit/lazy.js";
import { hideTip, Tooltip } from "../kit/tooltip.js";
import { moving } from "../state/playhead.js";
import { settings } from "../state/settings.js";
import { log } from "../state/store.js";

const Export = lazyPanel(() => import("../panels/export/panel.js"), "export", []);
const Models = lazyPanel(() => import("../panels/models/panel.js"), "models");
const Help = lazyPanel(() => import("../panels/help/panel.js"));
const WriteAnimation = lazy(() => import("./write_animation.js").then((found) => found.WriteAnimation));

const hasMoved = signal(false); // set by the first motion; without motion there is no animation
effect(() => {
  if (moving.value) hasMoved.value = true;
});

export function Overlays() {
  useLayoutEffect(hideTip, [settings.viewMode.value, log.value]); // its element belongs to another view or run
  return html`${helpOpen.value ? html`<${Help} />` : null}
    ${exportOpen.value ? html`<${Export} />` : null}
    ${modelsOpen.value ? html`<${Models} />` : null}
    ${hasMoved.value ? html`<${WriteAnimation} />` : null}
    <${Tooltip} />`;
}
