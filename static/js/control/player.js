// Player interface: the source of records that transport and keys control. It is the page's own engine, or
// runs in lockstep while their panel is open.

import { batch, signal } from "../../vendor/signals/signals.js";
import { own, shownRun } from "../state/run.js";
import { settings } from "../state/settings.js";
import * as store from "../state/store.js";
import * as actions from "./actions.js";
import { showOwn } from "./drawn.js";
import { applyConfig, reset } from "./restart.js";

/**
 * `live()`: whether it can produce more records; `running()`: whether it is doing so. `step()` resolves to whether a
 * step was taken. `prefill` and `add` (queue the draft) are null if unsupported; `forks`: whether its records can be
 * replayed with a change. `differs()`: whether the setup differs from this run; `restart()` applies it. `sentence()`:
 * text on the shown record, null for the log's. `shown`: the run that it shows instead of the page's own, if any.
 *
 * @typedef {{
 *   live: () => boolean, running: () => boolean,
 *   prefill: (() => unknown) | null, step: () => Promise<boolean>,
 *   run: () => unknown, pause: () => unknown, reset: () => unknown,
 *   add: (() => unknown) | null, forks: boolean, differs: () => boolean, restart: () => unknown,
 *   sentence: () => string | null, shown?: import("../state/run.js").Run,
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
  sentence: () => null,
};

async function step() {
  const done = await actions.step();
  return done ? done.performed > 0 : false;
}

/** Player that cannot produce records. @type {Player} */
export const viewOnlyPlayer = {
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
  sentence: () => null,
};

/** Current player of the page. */
export const player = signal(ownPlayer);

/** @type {Player[]} stack of players; the last one is current */
const players = [ownPlayer];

/** Return the player below the current one, such as a lesson below its race; null if that is the page's own. */
export const playerBelow = () => (players.length > 2 ? players[players.length - 2] : null);

/**
 * Make `other` the current player until the returned function is called. Players may be released in
 * any order. If the run that `other` shows is displayed, the page's own run then replaces it, at its last
 * position.
 * @param {Player} other
 */
export function takeOver(other) {
  players.push(other);
  player.value = other;
  return () => {
    const place = players.lastIndexOf(other);
    if (place < 0) return;
    players.splice(place, 1);
    batch(() => {
      player.value = players[players.length - 1];
      if (shownRun.peek() === other.shown) showOwn();
    });
  };
}
