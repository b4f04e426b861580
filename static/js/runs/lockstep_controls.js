// The controls of lanes in lockstep: run, pause, one step, again, speed, and which step is looked at.

import { useEffect } from "../../vendor/preact/hooks.js";
import { SPEEDS } from "../control/actions.js";
import { useHeldFocus } from "../kit/held_focus.js";
import { html } from "../kit/html.js";
import { Icon } from "../kit/parts.js";
import { settings } from "../state/settings.js";
import { connection } from "../state/store.js";
import { t } from "../tell/words.js";

/** While a panel of lanes is open it takes the room; `lanes` are left with it. */
export function useLanes(lanes) {
  useEffect(() => {
    const before = settings.detail_large.peek();
    settings.detail_large.value = true;
    return () => {
      settings.detail_large.value = before;
      lanes.leave();
    };
  }, []);
}

/** `lanes`: a Lockstep, whose kind begins the ids and texts; `wish()`: what to ask them. */
export function LockstepControls({ lanes, wish }) {
  const phase = lanes.phase.value;
  const off = connection.value !== "live";
  const opening = phase === "opening"; // a second press does nothing, and the first one keeps the focus
  const running = phase === "running";
  const over = phase === "done";
  const name = lanes.kind;
  const box = useHeldFocus(phase, `#${name}-look`);
  const say = (key, values) => t(`${name}.${key}`, values);
  const start = (action) => () => {
    lanes.shown.value = null;
    lanes[action](wish());
  };
  return html`<div class="race-controls" role="group" ref=${box} aria-label=${t(`detail.${name}`)}>
    <span class="swap">
      <button class="command primary" id=${`${name}-run`} data-shown=${!running} disabled=${off || over || running} aria-disabled=${opening} onClick=${start("run")}>
        <${Icon} name="run" /><span>${say("run")}</span>
      </button>
      <button class="command primary" id=${`${name}-pause`} data-shown=${running} disabled=${!running} onClick=${() => lanes.pause()}>
        <${Icon} name="pause" /><span>${say("pause")}</span>
      </button>
    </span>
    <button class="command" id=${`${name}-step`} disabled=${off || over} aria-disabled=${opening || running} onClick=${start("step")}><${Icon} name="step" /><span>${say("step")}</span></button>
    <button class="command" id=${`${name}-reset`} disabled=${phase === "idle" || opening || off} onClick=${() => lanes.reset()}><${Icon} name="reset" /><span>${say("reset")}</span></button>
    <label class="speed">
      <span class="visually-hidden">${say("speed")}</span>
      <select id=${`${name}-speed`} onChange=${(event) => (lanes.speed.value = Number(event.currentTarget.value))}>
        ${SPEEDS.map(
          (n) =>
            html`<option value=${n} selected=${n === lanes.speed.value}>${n === 0 ? t("transport.speed_max") : t("transport.speed_value", { n })}</option>`,
        )}
      </select>
    </label>
    <input
      class="race-look"
      id=${`${name}-look`}
      type="range"
      min="0"
      max=${Math.max(1, lanes.numSteps.value)}
      value=${lanes.shownStep.value}
      disabled=${lanes.numSteps.value === 0}
      aria-label=${say("look")}
      data-arrows
      onInput=${(event) => lanes.look(event.currentTarget.valueAsNumber)}
    />
    <span class="race-position num" id=${`${name}-position`}>
      ${lanes.numSteps.value ? say("position", { i: lanes.shownStep.value, n: lanes.numSteps.value }) : say("before")}
    </span>
  </div>`;
}
