// Player of lanes in lockstep: one of them is on stage, and a step is one step of each.

import { batch, computed, effect, signal } from "../../vendor/signals/signals.js";
import { show } from "../control/drawn.js";
import { player as driver, takeOver } from "../control/player.js";
import { own, shownRun } from "../state/run.js";
import { settings } from "../state/settings.js";
import * as store from "../state/store.js";
import { isSame } from "./lockstep.js";
import { stepRecords } from "./steps.js";

/** @import {Wish} from "./lockstep.js" */

const TYPING = 400; // ms without a change before another prompt or setting is applied

export class LanesPlayer {
  prefill = null; // the first step does it
  add = null; // every lane gets the one prompt, or the exhibit's
  forks = false;

  /**
   * `wish()`: what to run, null: nothing yet; `sentence()`: a sentence on the shown step.
   * @param {import("./lockstep.js").Lockstep} lanes
   * @param {{wish: () => Wish | null, sentence: () => string}} about
   */
  constructor(lanes, { wish, sentence }) {
    this.lanes = lanes;
    this.wish = wish;
    this.sentence = sentence;
    /** Index of the lane on stage; initially the last, which the panel's sentences are about. */
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
    /** Step on view: the `shownStep`-th of each lane. */
    this.shownStep = computed(() => {
      const [steps, index] = [lanes.numSteps.value, store.viewIndex.value];
      if (shownRun.value !== this.shown || !log.value || index >= store.numRecords.value - 1) return steps;
      return stepRecords(log.value).filter((record) => record <= index).length;
    });
  }

  /** Show a lane and control all of them, until the returned function is called. */
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
        lanes.phase.value; // the setup may have used another wish
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

  /** Apply a changed wish: start its runs, or discard the previous ones if the lanes are not on show. */
  begin() {
    const wish = this.wish();
    if (driver.peek() === this && wish) this.lanes.restart(wish);
    else this.lanes.reset();
  }

  /** Go to `step`; at or past the newest step the lanes are followed. @param {number} step */
  look(step) {
    if (step >= this.lanes.numSteps.peek()) store.backToLive();
    else store.goTo(this.#recordOf(step));
  }

  /** Put another lane on stage, at the same step. @param {number} lane */
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

  // ── Player interface for the transport ─────────────────────────────────────────────────────────────────────────────

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
    return wish !== null && this.lanes.numSteps.value > 0 && !isSame(wish, this.lanes.wish.value);
  };

  say = () => this.sentence();

  #atNewest() {
    store.backToLive();
    return this.wish();
  }
}

/**
 * Return the length of a log after its first `step` steps, including the records before the next step.
 * @param {import("../core/log.js").TraceLog} log
 * @param {number} step
 */
const recordsBy = (log, step) => stepRecords(log)[step] ?? log.length;
