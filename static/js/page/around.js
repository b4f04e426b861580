// What comes and goes over the page: help, what is exported, what flies from region to region, the tooltip.

import { exportOpen } from "../control/export_side.js";
import { helpOpen } from "../control/keyboard.js";
import { html } from "../kit/html.js";
import { lazyPanel } from "../kit/lazy.js";
import { Tooltip } from "../kit/tooltip.js";
import { Flights } from "./flights.js";

const Export = lazyPanel(() => import("../panels/export/panel.js"));
const Help = lazyPanel(() => import("../panels/help/panel.js"));

export function Around() {
  return html`${helpOpen.value ? html`<${Help} />` : null}
    ${exportOpen.value ? html`<${Export} />` : null}
    <${Flights} />
    <${Tooltip} />`;
}
