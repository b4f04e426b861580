// The controls of lanes in lockstep: run, pause, one step, again, speed, and which step is looked at.

import { SPEEDS } from "../control/actions.js";
import { useHeldFocus } from "../kit/held_focus.js";
import { html } from "../kit/html.js";
import { Icon } from "../kit/icon.js";
import { connection } from "../state/store.js";
import { t } from "../tell/words.js";

/**
 * @typedef {import("./lockstep.js").Lockstep} Lockstep
 * @typedef {import("./lockstep.js").Wish} Wish
 */

/**
 * `wish()`: what to ask the lanes, whose kind begins the ids.
 * @param {{lanes: Lockstep, wish: () => Wish}} props
 */
export function LockstepControls({ lanes, wish }) {
  const phase = lanes.phase.value;
  const off = connection.value !== "live" && !lanes.recorded;
  const opening = phase === "opening"; // a second press does nothing, and the first one keeps the focus
  const running = phase === "running";
  const over = phase === "done";
  const name = lanes.kind;
  const box = useHeldFocus(phase, `#${name}-look`);
  /** @param {Event & {currentTarget: HTMLSelectElement}} event */
  const chooseSpeed = (event) => (lanes.speed.value = Number(event.currentTarget.value));
  /** @param {Event & {currentTarget: HTMLInputElement}} event */
  const look = (event) => lanes.look(event.currentTarget.valueAsNumber);
  const at = { i: lanes.shownStep.value, n: lanes.numSteps.value };
  const start = (/** @type {"run" | "step"} */ action) => () => {
    lanes.shown.value = null;
    lanes[action](wish());
  };
  return html`<div class="runs-controls" role="group" ref=${box} aria-label=${t(`detail.${name}`)}>
    <span class="swap">
      <button
        class="command primary"
        id=${`${name}-run`}
        data-shown=${!running}
        disabled=${off || over || running}
        aria-disabled=${opening}
        onClick=${start("run")}
      >
        <${Icon} name="run" /><span>${t("runs.run")}</span>
      </button>
      <button
        class="command primary"
        id=${`${name}-pause`}
        data-shown=${running}
        disabled=${!running}
        onClick=${() => lanes.pause()}
      >
        <${Icon} name="pause" /><span>${t("runs.pause")}</span>
      </button>
    </span>
    <button
      class="command"
      id=${`${name}-step`}
      disabled=${off || over}
      aria-disabled=${opening || running}
      onClick=${start("step")}
    >
      <${Icon} name="step" /><span>${t("runs.step")}</span>
    </button>
    <button
      class="command"
      id=${`${name}-reset`}
      disabled=${phase === "idle" || opening || off}
      onClick=${() => lanes.reset()}
    >
      <${Icon} name="reset" /><span>${t("runs.reset")}</span>
    </button>
    <label class="speed">
      <span class="visually-hidden">${t("runs.speed")}</span>
      <select id=${`${name}-speed`} onChange=${chooseSpeed}>
        ${SPEEDS.map((n) => html`<option value=${n} selected=${n === lanes.speed.value}>${speedText(n)}</option>`)}
      </select>
    </label>
    <input
      class="runs-look"
      id=${`${name}-look`}
      type="range"
      min="0"
      max=${Math.max(1, at.n)}
      value=${at.i}
      disabled=${at.n === 0}
      aria-label=${t("runs.look")}
      data-arrows
      onInput=${look}
    />
    <span class="runs-position num" id=${`${name}-position`}>
      ${at.n ? t("runs.position", at) : t("runs.before")}
    </span>
  </div>`;
}

/** @param {number} n steps a second; 0: as fast as it goes */
const speedText = (n) => (n === 0 ? t("transport.speed_max") : t("transport.speed_value", { n }));

/**
 * What a step did, told when it is looked at; while the lanes run it is not read aloud.
 * @param {{lanes: Lockstep, text: string}} props
 */
export function Sentence({ lanes, text }) {
  const live = lanes.phase.value === "running" ? "off" : "polite";
  return html`<p class="runs-sentence" id=${`${lanes.kind}-sentence`} aria-live=${live}>${text}</p>`;
}
