// Join instructions on the projected view: large while participants join, then small in a corner.

import { useLayoutEffect, useRef } from "../../../vendor/preact/hooks.js";
import { requestOfClass } from "../../control/class_requests.js";
import { startOpening } from "../../control/opening.js";
import { t } from "../../i18n/words.js";
import { useReturnedFocus } from "../../kit/focus.js";
import { html } from "../../kit/html.js";
import { Icon } from "../../kit/icon.js";
import { Select } from "../../kit/inputs.js";
import { Sidebar } from "../../kit/sidebar.js";
import { leaveClass } from "../../net/classroom.js";
import {
  askOpen,
  attendance,
  chosenAddress,
  classState,
  drives,
  forgotten,
  isJoinCodeLarge,
  presenting,
} from "../../state/classroom.js";
import { settings } from "../../state/settings.js";
import { useBarHeight } from "./follower_bar.js";
import { QuickQuestion } from "./quick_question.js";
import { ReopenButton } from "./results.js";

const COMMAND = "kvtheater serve --class";
const QUIET = 4; // modules of quiet zone around a QR code

/** @typedef {import("../../core/wire.js").Door} JoinInfo */

/** @param {{info: JoinInfo}} props */
function Code({ info }) {
  const side = info.size + 2 * QUIET;
  return html`<svg class="class-qr" role="img" aria-label=${t("class.qr", { url: info.shown })}
    viewBox=${`${-QUIET} ${-QUIET} ${side} ${side}`} shape-rendering="crispEdges">
    <rect x=${-QUIET} y=${-QUIET} width=${side} height=${side} fill="#fff" /><path d=${info.path} fill="#000" />
  </svg>`;
}

/** Class code in two halves, as read aloud. @param {string} code */
const spelled = (code) => `${code.slice(0, 3)} ${code.slice(3)}`.toUpperCase();

const currentInfo = () => presenting.value?.doors[chosenAddress.value] ?? presenting.value?.doors[0] ?? null;

export function Corner() {
  const now = presenting.value;
  const info = currentInfo();
  const numPresent = attendance.value?.seats.filter((seat) => seat.here).length ?? 0;
  const ref = useBarHeight();
  if (!now || isJoinCodeLarge.value) return null;
  if (classState.value?.over)
    return html`<section class="class-strip" id="class-strip" aria-label=${t("class.label")} ref=${ref}>
      <span class="class-strip-here" role="status">${t(forgotten.value ? "class.forgotten" : "class.over")}</span>
      ${forgotten.value ? html`<${ReopenButton} />` : null}
      <button class="quiet" id="class-leave" onClick=${leaveClass}>${t("class.leave")}</button>
    </section>`;
  return html`<section class="class-strip" id="class-strip" aria-label=${t("class.label")} ref=${ref}>
    <button class="class-corner" id="class-corner" onClick=${() => (isJoinCodeLarge.value = true)}
      aria-label=${t("class.join", { code: spelled(now.code), n: numPresent })}>
      ${info ? html`<${Code} info=${info} />` : null}
      <span class="class-corner-text"><b class="class-code">${spelled(now.code)}</b>
        ${info ? html`<span>${info.shown}</span>` : null}</span>
    </button>
    <span class="class-strip-here num" role="status">${t("class.here", { n: numPresent })}</span>
    ${drives.value ? null : html`<${Driver} />`}
    <button class="quiet" id="class-ask-open" onClick=${() => (askOpen.value = true)}>${t("class.ask_open")}</button>
    <a class="quiet" id="class-teacher-open" target="_blank" href=${`?class=${now.state.id}&distance=desk`}>${t(
      "class.teacher_open",
    )}</a>
  </section>
  ${askOpen.value ? html`<${QuestionSidebar} />` : null}`;
}

/** Name of the participant who drives in the presenter's place. */
const Driver = () =>
  html`<span class="class-strip-driver">${t("class.drives", {
    name: classState.value?.driver_name ?? "",
  })} <button class="command" id="class-take-back" onClick=${() => requestOfClass("class_hand", { seat: null })}>${t(
    "class.take_back",
  )}</button></span>`;

const QuestionSidebar = () =>
  html`<${Sidebar} id="class-ask-side" label=${t("class.ask_open")} close=${closeAsk}><${QuickQuestion} /><//>`;

const closeAsk = () => (askOpen.value = false);

export function JoinView() {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const open = isJoinCodeLarge.value;
  useReturnedFocus(open, "class-corner");
  useLayoutEffect(() => {
    if (open) box.current?.focus();
  }, [open]);
  const now = presenting.value;
  if (!open || !now) return null;
  const info = currentInfo();
  const numPresent = attendance.value?.seats.filter((seat) => seat.here).length ?? 0;
  const close = () => (isJoinCodeLarge.value = false);
  const begin = () => {
    close();
    if (settings.viewMode.value !== "lesson") settings.viewMode.value = "present"; // readable from the back row
  };
  /** @param {KeyboardEvent} event */
  const onKey = (event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    close();
  };
  return html`<section class="class-join" id="class-join" tabindex="-1" ref=${box} aria-label=${t("class.come_in")}
    onKeyDown=${onKey}>
    <button class="tool class-join-close" id="class-join-close" aria-label=${t("help.close")} onClick=${close}><${Icon}
      name="close" /></button>
    <h2>${classState.value?.title || t("class.come_in")}</h2>
    ${info ? html`<${JoinInstructions} info=${info} code=${now.code} />` : html`<${ServerUnreachable} />`}
    <p class="class-join-here" role="status">${t("class.here", { n: numPresent })}</p>
    <div class="class-join-begin">
      <button class="command primary" id="class-begin" onClick=${begin}>${t("class.begin")}</button>
      <button class="command" id="class-film" onClick=${() => (begin(), startOpening())}>${t("class.film")}</button>
    </div>
  </section>`;
}

/** @param {{info: JoinInfo, code: string}} props */
function JoinInstructions({ info, code }) {
  const all = presenting.value?.doors ?? [];
  return html`<div class="class-ways">
    <${Code} info=${info} />
    <div>
      <p>${t("class.scan")}</p>
      <p class="class-address">${info.shown}</p>
      <p>${t("class.type")}</p>
      <p class="class-code class-code-large">${spelled(code)}</p>
      ${
        all.length > 1
          ? html`<label class="class-other">${t("class.other_address")} <${Select}
            id="class-address" value=${chosenAddress.value} choices=${all.map(({ shown }, i) => [i, shown])}
            commit=${(/** @type {string} */ i) => (chosenAddress.value = Number(i))} /></label>`
          : null
      }
    </div>
  </div>`;
}

/** Shown when no other device can reach this server: the command that opens it. */
const ServerUnreachable = () => html`<div class="class-closed"><p>${t("class.closed")}</p><p><code>${COMMAND}</code></p>
  <p class="hint">${t("class.closed.more")}</p></div>`;
