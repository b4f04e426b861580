// Lanes in lockstep as what the page shows and drives: one of them is on the stage, and a step is one of each.

import { batch, computed, effect, signal } from "../../vendor/signals/signals.js";
import { player as driver, takeOver } from "../control/player.js";
import { show } from "../control/shown.js";
import { onShow, own } from "../state/run.js";
import { settings } from "../state/settings.js";
import * as store from "../state/store.js";
import { isSame } from "./lockstep.js";
import { stepRecords } from "./steps.js";

/** @typedef {import("./lockstep.js").Wish} Wish */

const TYPING = 400; // ms of rest after which another prompt or setting is taken up

export class LanesPlayer {
  prefill = null; // the first step is
  add = null; // every lane gets the one prompt, or the exhibit's
  forks = false;

  /**
   * `wish()`: what to ask the lanes, null: nothing yet; `told()`: a sentence on the step that is shown.
   * @param {import("./lockstep.js").Lockstep} lanes
   * @param {{wish: () => Wish | null, told: () => string}} about
   */
  constructor(lanes, { wish, told }) {
    this.lanes = lanes;
    this.wish = wish;
    this.told = told;
    /** The lane on the stage, by its place: at first the last, which the panel's sentences are about. */
    this.chosen = signal(lanes.names.length - 1);
    const log = computed(() => lanes.logs.value?.[this.chosen.value] ?? null);
    /** @type {import("../state/run.js").Run} */
    this.shown = {
      log,
      numRecords: computed(() => (log.value ? recordsBy(log.value, lanes.numSteps.value) : 0)),
      behind: signal(0),
      pace: computed(() => (this.running() ? settings.speed.value : null)),
      theater: computed(() => (lanes.logs.value, lanes.theaters.lanes[this.chosen.value]?.theater ?? null)),
    };
    /** The step that is looked at: of each lane the `shownStep`-th. */
    this.shownStep = computed(() => {
      const [steps, index] = [lanes.numSteps.value, store.viewIndex.value];
      if (onShow.value !== this.shown || !log.value || index >= store.numRecords.value - 1) return steps;
      return stepRecords(log.value).filter((record) => record <= index).length;
    });
  }

  /**
   * Show a lane and drive all of them, until what is returned is called.
   */
  enter() {
    const { lanes } = this;
    const giveBack = takeOver(this);
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let timer;
    /** @type {unknown} */
    let seen = null;
    const stops = [
      effect(() => {
        const wish = this.wish();
        const here = store.connection.value === "live" || lanes.recorded;
        lanes.phase.value; // what was set up meanwhile may be another
        clearTimeout(timer);
        if (wish && here && own.log.value) timer = setTimeout(() => lanes.prepare(wish), lanes.logs.value ? TYPING : 0);
      }),
      effect(() => {
        if (!own.log.value || !lanes.logs.value || lanes.logs.value === seen) return;
        seen = lanes.logs.value;
        show(this.shown, lanes.recorded ? this.#recordOf(0) : null);
      }),
    ];
    return () => {
      clearTimeout(timer);
      for (const stop of stops) stop();
      lanes.leave();
      giveBack();
    };
  }

  /** The wish is another one: the runs for it begin, or those before are forgotten where nobody looks. */
  begin() {
    const wish = this.wish();
    if (driver.peek() === this && wish) this.lanes.restart(wish);
    else this.lanes.reset();
  }

  /**
   * Look at `step`; at or past the newest it is followed.
   * @param {number} step
   */
  look(step) {
    if (step >= this.lanes.numSteps.peek()) store.backToLive();
    else store.goTo(this.#recordOf(step));
  }

  /**
   * Put another lane on the stage, at the same step.
   * @param {number} lane
   */
  choose(lane) {
    const [step, follows] = [this.shownStep.peek(), store.following.peek()];
    batch(() => {
      this.chosen.value = lane;
      store.selected.value = store.hovered.value = settings.seq.value = settings.sub.value = null;
      settings.step.value = follows ? null : this.#recordOf(step);
    });
  }

  /** @param {number} step */
  #recordOf(step) {
    const log = this.shown.log.peek();
    return log ? recordsBy(log, step) - 1 : -1;
  }

  // ── What the transport asks for ────────────────────────────────────────────────────────────────────────────────────

  live = () => store.connection.value === "live" && this.lanes.phase.value !== "done";
  running = () => this.lanes.phase.value === "running";

  step = async () => {
    const wish = this.#atNewest();
    return wish ? this.lanes.step(wish) : false;
  };

  run = async () => {
    const wish = this.#atNewest();
    if (wish) await this.lanes.run(wish);
  };

  pause = () => this.lanes.pause();

  restart = async () => {
    const wish = this.#atNewest();
    if (wish) await this.lanes.restart(wish);
  };

  reset = this.restart;

  differs = () => {
    const wish = this.wish();
    return wish !== null && this.lanes.numSteps.value > 0 && !isSame(wish, this.lanes.asked.value);
  };

  say = () => this.told();

  #atNewest() {
    store.backToLive();
    return this.wish();
  }
}

/**
 * How many records a log has when its first `step` steps are done, with what came between them and the next.
 * @param {import("../core/log.js").TraceLog} log
 * @param {number} step
 */
const recordsBy = (log, step) => stepRecords(log)[step] ?? log.length;
