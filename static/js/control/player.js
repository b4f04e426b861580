// Player interface: the source of the shown records that transport and keys control. It is the page's own engine, or
// lanes in lockstep while their panel is open.

import { batch, signal } from "../../vendor/signals/signals.js";
import { own, shownRun } from "../state/run.js";
import { settings } from "../state/settings.js";
import * as store from "../state/store.js";
import * as actions from "./actions.js";
import { showOwn } from "./drawn.js";
import { applyConfig, reset } from "./restart.js";

/**
 * `live()`: whether it can produce more records; `running()`: whether it does now. `step()` resolves to whether a step
 * was taken. `prefill` and `add` (queue the draft) are null if unsupported; `forks`: whether its past can be replayed
 * with a change. `differs()`: whether the setup differs from this run; `restart()` then starts over. `say()`: its own
 * sentence on the record on view; null: that of the log. `shown`: the run it shows in place of the page's own, if any.
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

/** Player that cannot produce records. @type {Player} */
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

/** Current player of the page. */
export const player = signal(ownPlayer);

/** @type {Player[]} stack of players; the last one is current */
const drivers = [ownPlayer];

/** Return the player below the current one: a lesson, while its figure is a race; null for the page's own. */
export const beneath = () => (drivers.length > 2 ? drivers[drivers.length - 2] : null);

/**
 * Make `other` the current player until the returned function is called; the previous player then resumes, in whatever
 * order players are released. A run that `other` shows is removed with it, and the page's own run reappears where it
 * was left.
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
      if (shownRun.peek() === other.shown) showOwn();
    });
  };
}
