// What the transport and the keys drive: whoever makes the records that are shown. The page's own engine, or lanes in
// lockstep while their panel is open.

import { batch, signal } from "../../vendor/signals/signals.js";
import { onShow, own } from "../state/run.js";
import { settings } from "../state/settings.js";
import * as store from "../state/store.js";
import * as actions from "./actions.js";
import { applyConfig, reset } from "./anew.js";
import { showOwn } from "./shown.js";

/**
 * `live()`: whether it can be asked for more records; `running()`: whether it makes them now. `step()` resolves to
 * whether one was taken. `prefill` and `add` (the draft to its queue) are null where there is no such thing; `forks`:
 * whether its past can be made again with a change. `differs()`: whether the setup asks for something else than this
 * run, with which `restart()` begins anew. `say()`: its own sentence on the record that is looked at; null: as the log
 * tells it. `shown`: the run that it puts on show in place of the page's own, if it does.
 *
 * @typedef {{
 *   live: () => boolean, running: () => boolean,
 *   prefill: (() => unknown) | null, step: () => Promise<boolean>,
 *   run: () => unknown, pause: () => unknown, reset: () => unknown,
 *   add: (() => unknown) | null, forks: boolean, differs: () => boolean, restart: () => unknown,
 *   say: () => string | null, shown?: import("../state/run.js").Run,
 * }} Player
 */

/** @type {Player} */
const ownPlayer = {
  live: () => store.connection.value === "live",
  running: actions.running,
  prefill: actions.prefill,
  step,
  run: actions.run,
  pause: actions.pause,
  reset,
  add: () => actions.addPrompt(settings.after.peek()),
  forks: true,
  differs: () => actions.configDiffers() && Boolean(own.log.value?.length),
  restart: applyConfig,
  say: () => null,
};

async function step() {
  const done = await actions.step();
  return done ? done.performed > 0 : false;
}

/**
 * What who makes no records says of them: one looks at those that there are.
 *
 * @type {Player}
 */
export const onlyLooking = {
  live: () => false,
  running: () => false,
  prefill: null,
  step: async () => false,
  run: () => {},
  pause: () => {},
  reset: () => {},
  add: null,
  forks: false,
  differs: () => false,
  restart: () => {},
  say: () => null,
};

/** What drives the page now. */
export const player = signal(ownPlayer);

/** @type {Player[]} who drives, or will again when those after it have given the page back */
const drivers = [ownPlayer];

/** Who lets the present driver drive: a lesson, while its figure is a race; null where that is the page itself. */
export const beneath = () => (drivers.length > 2 ? drivers[drivers.length - 2] : null);

/**
 * Let `other` drive the page, until what is returned is called: who drove it before does so again then, whoever gives
 * it back first. A run that `other` shows goes with it, and the page's own is shown, where it was left.
 *
 * @param {Player} other
 */
export function takeOver(other) {
  drivers.push(other);
  player.value = other;
  return () => {
    const place = drivers.lastIndexOf(other);
    if (place < 0) return;
    drivers.splice(place, 1);
    batch(() => {
      player.value = drivers[drivers.length - 1];
      if (onShow.peek() === other.shown) showOwn();
    });
  };
}
