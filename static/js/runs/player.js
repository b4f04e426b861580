// Player of lanes in lockstep: one of them is on stage, and a step is one step of each lane.

import { batch, computed, effect, signal } from "../../vendor/signals/signals.js";
import { show } from "../control/drawn.js";
import { player as driver, takeOver } from "../control/player.js";
import { own, shownRun } from "../state/run.js";
import { settings } from "../state/settings.js";
import * as store from "../state/store.js";
import { isSame } from "./lockstep.js";
import { stepRecords } from "./steps.js";

/** @import {RunSpec} from "./lockstep.js" */

const TYPING_MS = 400; // without a change, until another prompt or setting is applied

export class LanesPlayer {
  prefill = null; // part of the first step
  add = null; // the spec determines the prompts
  forks = false;

  /**
   * `spec()`: the runs to set up, or null; `sentence()`: text on the shown step.
   * @param {import("./lockstep.js").Lockstep} lanes
   * @param {{spec: () => RunSpec | null, sentence: () => string}} callbacks
   */
  constructor(lanes, { spec, sentence }) {
    this.lanes = lanes;
    this.spec = spec;
    this.sentence = sentence;
    /** Index of the lane on stage; initially the last, which the panel's texts describe. */
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
    /** Number of the shown step in each lane. */
    this.shownStep = computed(() => {
      const [steps, index] = [lanes.numSteps.value, store.viewIndex.value];
      if (shownRun.value !== this.shown || !log.value || index >= store.numRecords.value - 1) return steps;
      return stepRecords(log.value).filter((record) => record <= index).length;
    });
  }

  /** Show a lane and control all of them, until the returned function is called. */
  enter() {
    const { lanes } = this;
    const release = takeOver(this);
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let timer;
    /** @type {unknown} */
    let shownLogs = null;
    const stops = [
      effect(() => {
        const spec = this.spec();
        const canRun = store.connection.value === "live" || lanes.recorded;
        lanes.phase.value; // subscribes: the setup may have used another spec
        clearTimeout(timer);
        if (spec && canRun && own.log.value)
          timer = setTimeout(() => lanes.prepare(spec), lanes.logs.value ? TYPING_MS : 0);
      }),
      effect(() => {
        if (!own.log.value || !lanes.logs.value || lanes.logs.value === shownLogs) return;
        shownLogs = lanes.logs.value;
        show(this.shown, lanes.recorded ? this.#recordOf(0) : null);
      }),
    ];
    return () => {
      clearTimeout(timer);
      for (const stop of stops) stop();
      lanes.leave();
      release();
    };
  }

  /** Apply a changed spec: start its runs, or discard the previous ones if the lanes are not shown. */
  begin() {
    const spec = this.spec();
    if (driver.peek() === this && spec) this.lanes.restart(spec);
    else this.lanes.reset();
  }

  /** Go to `step`. At the newest step or after it, follow the lanes. @param {number} step */
  look(step) {
    if (step >= this.lanes.numSteps.peek()) store.backToLive();
    else store.goTo(this.#recordOf(step));
  }

  /** Show another lane on stage, at the same step. @param {number} lane */
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
    const spec = this.#atNewest();
    return spec ? this.lanes.step(spec) : false;
  };

  run = async () => {
    const spec = this.#atNewest();
    if (spec) await this.lanes.run(spec);
  };

  pause = () => this.lanes.pause();

  restart = async () => {
    const spec = this.#atNewest();
    if (spec) await this.lanes.restart(spec);
  };

  reset = this.restart;

  differs = () => {
    const spec = this.spec();
    return spec !== null && this.lanes.numSteps.value > 0 && !isSame(spec, this.lanes.spec.value);
  };

  #atNewest() {
    store.backToLive();
    return this.spec();
  }
}

/**
 * Return the length of a log after its first `step` steps, including the records before the next step.
 * @param {import("../core/log.js").TraceLog} log
 * @param {number} step
 */
const recordsBy = (log, step) => stepRecords(log)[step] ?? log.length;
