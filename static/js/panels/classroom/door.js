// Join instructions on the projected view: large while participants join, then small in a corner.

import { useLayoutEffect, useRef } from "../../../vendor/preact/hooks.js";
import { askOfClass } from "../../control/class_requests.js";
import { startOpening } from "../../control/opening.js";
import { t } from "../../i18n/words.js";
import { useReturnedFocus } from "../../kit/focus.js";
import { html } from "../../kit/html.js";
import { Icon } from "../../kit/icon.js";
import { withValue } from "../../kit/inputs.js";
import { Side } from "../../kit/sidebar.js";
import { leaveClass } from "../../net/classroom.js";
import { askOpen, chosenDoor, desk, doorOpen, drives, forgotten, presenting, told } from "../../state/classroom.js";
import { settings } from "../../state/settings.js";
import { Another } from "./another.js";
import { Ask } from "./ask.js";
import { useRoom } from "./room.js";

const COMMAND = "kvtheater serve --class";
const QUIET = 4; // modules of quiet zone around a QR code

/** @typedef {import("../../core/wire.js").Door} DoorTold */

/** @param {{door: DoorTold}} props */
function Code({ door }) {
  const side = door.size + 2 * QUIET;
  return html`<svg class="class-qr" role="img" aria-label=${t("class.qr", { url: door.shown })}
    viewBox=${`${-QUIET} ${-QUIET} ${side} ${side}`} shape-rendering="crispEdges">
    <rect x=${-QUIET} y=${-QUIET} width=${side} height=${side} fill="#fff" /><path d=${door.path} fill="#000" />
  </svg>`;
}

/** Class code in two halves, as read aloud. @param {string} code */
const spelled = (code) => `${code.slice(0, 3)} ${code.slice(3)}`.toUpperCase();

const doorNow = () => presenting.value?.doors[chosenDoor.value] ?? presenting.value?.doors[0] ?? null;

export function Corner() {
  const now = presenting.value;
  const door = doorNow();
  const here = desk.value?.seats.filter((seat) => seat.here).length ?? 0;
  const ref = useRoom();
  if (!now || doorOpen.value) return null;
  if (told.value?.over)
    return html`<section class="class-strip" id="class-strip" aria-label=${t("class.label")} ref=${ref}>
      <span class="class-strip-here" role="status">${t(forgotten.value ? "class.forgotten" : "class.over")}</span>
      ${forgotten.value ? html`<${Another} />` : null}
      <button class="quiet" id="class-leave" onClick=${leaveClass}>${t("class.leave")}</button>
    </section>`;
  return html`<section class="class-strip" id="class-strip" aria-label=${t("class.label")} ref=${ref}>
    <button class="class-corner" id="class-corner" onClick=${() => (doorOpen.value = true)}
      aria-label=${t("class.door", { code: spelled(now.code), n: here })}>
      ${door ? html`<${Code} door=${door} />` : null}
      <span class="class-corner-text"><b class="class-code">${spelled(now.code)}</b>
        ${door ? html`<span>${door.shown}</span>` : null}</span>
    </button>
    <span class="class-strip-here num" role="status">${t("class.here", { n: here })}</span>
    ${drives.value ? null : html`<${Driver} />`}
    <button class="quiet" id="class-ask-open" onClick=${() => (askOpen.value = true)}>${t("class.ask_open")}</button>
    <a class="quiet" id="class-desk-open" target="_blank" href=${`?class=${now.told.id}&distance=desk`}>${t(
      "class.desk_open",
    )}</a>
  </section>
  ${askOpen.value ? html`<${AskSide} />` : null}`;
}

/** Name of the participant who drives in the presenter's place. */
const Driver = () =>
  html`<span class="class-strip-driver">${t("class.drives", {
    name: told.value?.driver_name ?? "",
  })} <button class="command" id="class-take-back" onClick=${() => askOfClass("class_hand", { seat: null })}>${t(
    "class.take_back",
  )}</button></span>`;

const AskSide = () => html`<${Side} id="class-ask-side" label=${t("class.ask_open")} close=${closeAsk}><${Ask} /><//>`;

const closeAsk = () => (askOpen.value = false);

export function Door() {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const open = doorOpen.value;
  useReturnedFocus(open, "class-corner");
  useLayoutEffect(() => {
    if (open) box.current?.focus();
  }, [open]);
  const now = presenting.value;
  if (!open || !now) return null;
  const door = doorNow();
  const here = desk.value?.seats.filter((seat) => seat.here).length ?? 0;
  const close = () => (doorOpen.value = false);
  const begin = () => {
    close();
    if (settings.distance.value !== "learn") settings.distance.value = "room"; // readable from the back row
  };
  /** @param {KeyboardEvent} event */
  const onKey = (event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    close();
  };
  return html`<section class="class-door" id="class-door" tabindex="-1" ref=${box} aria-label=${t("class.come_in")}
    onKeyDown=${onKey}>
    <button class="tool class-door-close" id="class-door-close" aria-label=${t("help.close")} onClick=${close}><${Icon}
      name="close" /></button>
    <h2>${told.value?.title || t("class.come_in")}</h2>
    ${door ? html`<${Ways} door=${door} code=${now.code} />` : html`<${Closed} />`}
    <p class="class-door-here" role="status">${t("class.here", { n: here })}</p>
    <div class="class-door-begin">
      <button class="command primary" id="class-begin" onClick=${begin}>${t("class.begin")}</button>
      <button class="command" id="class-film" onClick=${() => (begin(), startOpening())}>${t("class.film")}</button>
    </div>
  </section>`;
}

/** @param {{door: DoorTold, code: string}} props */
function Ways({ door, code }) {
  const all = presenting.value?.doors ?? [];
  return html`<div class="class-ways">
    <${Code} door=${door} />
    <div>
      <p>${t("class.scan")}</p>
      <p class="class-address">${door.shown}</p>
      <p>${t("class.type")}</p>
      <p class="class-code class-code-large">${spelled(code)}</p>
      ${
        all.length > 1
          ? html`<label class="class-other">${t("class.other_address")} <select id="class-address"
            value=${chosenDoor.value} onChange=${withValue((i) => (chosenDoor.value = Number(i)))}>
            ${all.map((one, i) => html`<option value=${i} key=${one.url}>${one.shown}</option>`)}</select></label>`
          : null
      }
    </div>
  </div>`;
}

/** Shown when no other device can reach this server: the command that opens it. */
const Closed = () => html`<div class="class-closed"><p>${t("class.closed")}</p><p><code>${COMMAND}</code></p>
  <p class="hint">${t("class.closed.more")}</p></div>`;
