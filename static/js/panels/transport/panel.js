// The bottom region: position in the log, playback controls, sub-steps of the shown step, and the sentence.

import { useEffect, useRef } from "../../../vendor/preact/hooks.js";
import { effect, signal } from "../../../vendor/signals/signals.js";
import { SPEEDS } from "../../control/actions.js";
import { canFork, openForm } from "../../control/fork.js";
import { jumpOpen } from "../../control/keyboard.js";
import * as playback from "../../control/playback.js";
import { player } from "../../control/player.js";
import { isPresenting } from "../../control/present.js";
import { stepSeconds } from "../../core/metrics.js";
import { memoryFigures } from "../../core/state.js";
import { bytesText, grouped, secondsText, t } from "../../i18n/words.js";
import { Fidelity } from "../../kit/fidelity.js";
import { useHeldFocus } from "../../kit/focus.js";
import { html } from "../../kit/html.js";
import { Icon } from "../../kit/icon.js";
import { Select } from "../../kit/inputs.js";
import { lazy } from "../../kit/lazy.js";
import { PHASES, phases, playedSub, viewSub } from "../../state/playhead.js";
import { settings } from "../../state/settings.js";
import {
  behind,
  busy,
  captureVersion,
  connection,
  following,
  isReplay,
  layer,
  log,
  numRecords,
  record,
  state,
  viewIndex,
} from "../../state/store.js";
import { Scrubber } from "./scrubber.js";
import { Sentence } from "./sentence.js";

/** @import {Children} from "../../kit/html.js" */

const Jump = lazy(() => import("./jump.js").then((m) => m.Jump));

/** Whether small screens show the secondary controls: sub-steps, speed, first and last, reset, fork. */
const moreOpen = signal(false);

export function Panel() {
  const live = !isReplay.value && connection.value !== "gone";
  return html`<section class="transport" aria-label=${t("transport.label")} data-more=${moreOpen.value}>
    <div class="transport-row">
      <div class="commands" role="group" aria-label=${t("transport.commands")}>
        ${live ? html`<${EngineCommands} />` : null}
        <${MainButton} />
        ${live ? html`<${Reset} />` : null} ${live && player.value.forks ? html`<${Fork} />` : null}
        <${Speed} />
      </div>
      ${settings.viewMode.value === "workspace" ? html`<${CachedBytes} />` : null}
      <${History} />
      <${Scrubber} />
      <${Position} />
    </div>
    <div class="moment-row">
      ${log.value?.header.observed ? html`<i></i>` : html`<${Phases} />`}
      <${Sentence} />
      <${BackToLive} />
    </div>
    <i class="transport-break" aria-hidden="true"></i>
    <${MoreButton} />
    ${jumpOpen.value ? html`<${Jump} />` : null}
  </section>`;
}

function History() {
  const index = viewIndex.value;
  const end = following.value || index >= numRecords.value - 1;
  /**
   * @param {string} id @param {string} icon @param {string} label
   * @param {() => void} action @param {boolean} disabled
   */
  const button = (id, icon, label, action, disabled) =>
    html`<button class="tool" id=${id} aria-label=${label} title=${label} onClick=${action}
      disabled=${disabled}><${Icon} name=${icon} /></button>`;
  return html`<div class="history" role="group" aria-label=${t("transport.history")}>
    ${button("btn-first", "first", t("transport.first"), () => playback.jumpTo(-1), index < 0)}
    ${button("btn-back", "back", t("transport.back"), () => playback.stepRecord(-1), index < 0)}
    ${button(
      "btn-forward",
      "forward",
      t("transport.forward"),
      () => playback.stepRecord(1),
      end && viewSub.value === null,
    )}
    ${button("btn-last", "last", t("transport.last"), playback.backToLive, end && viewSub.value === null)}
  </div>`;
}

/** Commands that compute new records. */
function EngineCommands() {
  const { step, live, running } = player.value;
  const prefill = isPresenting() ? null : player.value.prefill; // when presenting, "step" also starts the prefill
  const isOff = !live() || running();
  const highlightsFirst = numRecords.value === 0 || !prefill; // whether to highlight the prefill command
  const isWaiting = connection.value !== "live" || busy.value;
  return html`${
    prefill
      ? html`<button class=${highlightsFirst ? "command primary" : "command"} id="btn-prefill" disabled=${isOff}
          aria-busy=${isWaiting} onClick=${prefill}><${Icon} name="prefill" /><span>${t("transport.prefill")}</span>
        </button>`
      : null
  }
    <button class=${highlightsFirst && prefill ? "command" : "command primary"} id="btn-step" disabled=${isOff}
      onClick=${step}><${Icon} name="step" /><span>${t("transport.step")}</span></button>`;
}

/** Main button: runs or pauses the engine at the newest record, plays or stops the log elsewhere. */
function MainButton() {
  const now = playback.main.value;
  const box = useHeldFocus(now);
  const isOff = {
    run: connection.value !== "live",
    pause: connection.value !== "live",
    play: numRecords.value === 0,
    stop: false,
  };
  /** @type {(name: keyof typeof isOff, icon: string) => Children} */
  const button = (name, icon) => html`<button
    class=${`command main-${name}`}
    id=${`btn-${name}`}
    data-shown=${now === name}
    disabled=${now !== name || isOff[name]}
    title=${t(`transport.${name}_hint`)}
    onClick=${playback.doMain}
  >
    <${Icon} name=${icon} /><span>${t(`transport.${name}`)}</span>
  </button>`;
  return html`<span class="swap"
    ref=${box}>${button("run", "run")} ${button("pause", "pause")} ${button("play", "play")} ${button(
      "stop",
      "pause",
    )}</span>`;
}

function Reset() {
  return html`<button class="command" id="btn-reset" disabled=${connection.value !== "live"}
    onClick=${player.value.reset} title=${t("transport.reset_hint")}>
    <${Icon} name="reset" /><span>${t("transport.reset")}</span>
  </button>`;
}

/** Bytes of the cached keys and values at the shown record. */
function CachedBytes() {
  const now = record.value?.memory ?? (state.value ? memoryFigures(state.value) : null);
  if (!now) return html`<p class="kept"></p>`; // reserves the space
  const tokens = t("transport.kept", { n: now.tokens_held });
  return html`<p class="kept num" id="kept" title=${t("transport.kept_hint")}>
    <b>${bytesText(now.bytes_used)}</b><span>${tokens} <${Fidelity} kind="derived"
      formula="tokens_held · bytes per token" /></span>
  </p>`;
}

function Fork() {
  return html`<button class="command bare" id="btn-fork" disabled=${!canFork.value} onClick=${() => openForm()}
    aria-label=${t("fork.open")} title=${t("fork.hint")}>
    <${Icon} name="fork" />
  </button>`;
}

/** @type {Record<number, string>} */
const FRACTIONS = { 0.25: "¼", 0.5: "½" };

function Speed() {
  return html`<label class="speed">
    <span class="visually-hidden">${t("transport.speed")}</span>
    <${Select} id="speed" value=${settings.speed.value} title=${t("transport.speed")}
      commit=${(/** @type {string} */ speed) => (settings.speed.value = Number(speed))}
      choices=${SPEEDS.map((n) => [
        n,
        n ? t("transport.speed_value", { n: FRACTIONS[n] ?? n }) : t("transport.speed_max"),
      ])} />
  </label>`;
}

function Position() {
  const index = viewIndex.value;
  const record = log.value?.records[index];
  const at =
    index < 0
      ? t(numRecords.value ? "transport.before" : "transport.none")
      : t("transport.position", { i: grouped(index + 1), n: grouped(numRecords.value) });
  return html`<div class="position">
      <button class="position-go num" id="position" aria-expanded=${jumpOpen.value} aria-controls="jump"
        title=${t("jump.title")} onClick=${() => (jumpOpen.value = !jumpOpen.value)}>
        ${at}<${Icon} name="larger" />
      </button>
      <span class="position-second num">
        <${ArrivalNote} index=${index}>
          ${log.value?.header.observed ? null : t("transport.step_count", { n: record?.step ?? 0 })}
          ${
            record?.kind === "step"
              ? html` · <b>${secondsText(stepSeconds(record))}</b> <${Fidelity} kind="derived"
                formula="schedule + prepare + forward + sample" />`
              : null
          }
        <//>
      </span>
    </div>`;
}

function BackToLive() {
  const behind = !following.value && connection.value === "live";
  return html`<button class="command live" id="btn-live" data-shown=${behind} disabled=${!behind}
    onClick=${playback.backToLive} aria-label=${t("transport.live")}>
    <i aria-hidden="true">●</i><span class="live-long">${t("transport.live")}</span><span
      class="live-short">${t("transport.live_short")}</span>
  </button>`;
}

/** Button for the secondary controls on small screens. */
function MoreButton() {
  const label = t(moreOpen.value ? "transport.less" : "transport.more");
  return html`<button class="tool" id="btn-transport-more" aria-expanded=${moreOpen.value} aria-label=${label}
    title=${label} onClick=${() => (moreOpen.value = !moreOpen.value)}><${Icon} name="more" /></button>`;
}

/** Note about missing data, or the children. @param {{index: number, children: Children}} props */
function ArrivalNote({ index, children }) {
  captureVersion.value;
  if (connection.value === "live" && behind.value > 64)
    return html`<span id="late">${t("transport.catching_up", { n: grouped(behind.value) })}</span>`;
  if (log.value?.captureGone.has(`${index}/${layer.value}`))
    return html`<span id="late">${t("transport.capture_gone")}</span>`;
  if (log.value?.captureMissing(index, layer.value)) {
    return html`<span
      id="late">${t(connection.value === "live" ? "transport.capture_late" : "transport.capture_missing")}</span>`;
  }
  return html`<span>${children}</span>`;
}

/** The six sub-steps of the shown step, with the current one marked. */
function Phases() {
  const bars = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(
    () =>
      effect(() => {
        const progress = phases();
        const elements = /** @type {NodeListOf<HTMLElement> | undefined} */ (
          bars.current?.querySelectorAll(".phase-bar i")
        );
        elements?.forEach((bar, i) => (bar.style.transform = `scaleX(${progress[PHASES[i]]})`));
      }),
    [],
  );
  const isStep = log.value?.records[viewIndex.value]?.kind === "step";
  const sub = viewSub.value;
  const played = playedSub.value;
  return html`<div class="phases" role="group" aria-label=${t("transport.phases")} data-off=${!isStep} ref=${bars}>
    ${PHASES.map(
      (name, i) => html`<button
        class="phase-button"
        id=${`phase-${name}`}
        disabled=${!isStep}
        aria-current=${sub === i ? "step" : undefined}
        data-played=${played === i}
        title=${t(`phase.${name}.hint`)}
        onClick=${() => playback.chooseSub(i)}
      >
        <span>${t(`phase.${name}`)}</span>
        <span class="phase-bar" aria-hidden="true"><i></i></span>
      </button>`,
    )}
  </div>`;
}
