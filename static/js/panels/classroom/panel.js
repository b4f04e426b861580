// The class: its door on the wall, the presenter's desk, the bar of who attends, and the question that all are asked.

import { html } from "../../kit/html.js";
import { attends, presents, startOpen, told } from "../../state/classroom.js";
import { settings } from "../../state/settings.js";
import { Bar } from "./bar.js";
import { Desk } from "./desk.js";
import { Corner, Door } from "./door.js";
import { Start } from "./start.js";
import { Wall } from "./wall.js";

export function Panel() {
  if (presents.value && settings.distance.value === "desk") return html`<${Desk} />`;
  return html`${startOpen.value ? html`<${Start} />` : null}
    ${presents.value && told.value ? html`<${Wall} /><${Corner} /><${Door} />` : null}
    ${attends.value ? html`<${Bar} />` : null}`;
}
