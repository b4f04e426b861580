// Several runs in lockstep: one session per lane on a separate connection, stepped together. The page's own run is not
// affected. On a site the lanes are complete recordings.

import { batch, signal } from "../../vendor/signals/signals.js";
import { Refusal } from "../net/client.js";
import { settings } from "../state/settings.js";
import { isSite } from "../state/without_server.js";
import { recordedLanes } from "./lane.js";
import { LaneSessions, lost } from "./sessions.js";
import { stepRecords } from "./steps.js";

/** @import {TraceLog} from "../core/log.js" */

/**
 * Specification of the runs. `configs`: by lane, in order; `models`: by lane, by default the server's first.
 * @typedef {Record<string, unknown>} Fields of EngineConfig or SamplingParams
 * @typedef {{
 *   configs: Record<string, Fields>, prompts: string[], sampling: Fields, models?: Record<string, string | null>,
 * }} RunSpec
 * `stepping`: one step; `running`: until all lanes are done.
 * @typedef {"idle" | "opening" | "ready" | "stepping" | "running" | "done"} Phase
 *
 * Reason that lanes cannot continue: the server's message, or "" if the connection or a session is lost.
 * @typedef {{message: string, objection?: import("../core/trace.js").Objection}} Problem
 */

/** @type {(a: RunSpec, b: RunSpec | null) => boolean} */
export const isSame = (a, b) => JSON.stringify(a) === JSON.stringify(b);

/**
 * Lanes by name, each with its own configuration and the same prompts. A lane's session is reused for the next spec, so
 * the configs of a spec name every field in which specs differ.
 */
export class Lockstep {
  /**
   * `kind`: prefix of the sessions' names; `captures`: whether the lanes' arrays are needed; `recorded`: without a
   * server, maps the lane `name` of a spec to a recorded run.
   * @param {string} kind
   * @param {string[]} names
   * @param {{captures?: boolean, recorded?: ((name: string) => string) | null}} [options]
   */
  constructor(kind, names, { captures = false, recorded = null } = {}) {
    this.recorded = isSite ? recorded : null;
    this.kind = kind;
    this.names = names;
    this.phase = signal(/** @type {Phase} */ ("idle"));
    /** Logs of the lanes in the order of `names`; null before the first run. They grow: `numSteps` counts the steps. */
    this.logs = signal(/** @type {TraceLog[] | null} */ (null));
    /** Steps that the lanes have taken together. */
    this.numSteps = signal(0);
    /** The spec that the logs belong to, or null. */
    this.spec = signal(/** @type {RunSpec | null} */ (null));
    /** Reason that the lanes cannot continue, or null. */
    this.problem = signal(/** @type {Problem | null} */ (null));
    this.theaters = new LaneSessions(kind, names, captures, {
      lost: (message) => this.#lost(message),
      failed: (error) => this.#fail(error),
    });
    this.workId = 0; // incremented to cancel pending work
    this.runsId = 0; // incremented when the runs are replaced
    this.pendingSteps = 0; // steps to take once the lanes are set up
    /** @type {Promise<void>} */
    this.opening = Promise.resolve(); // serializes setups, which share the sessions
    this.wake = () => {}; // ends the pause between two steps
  }

  /** Set up the lanes for the spec unless they have taken steps or are set up for it. @param {RunSpec} spec */
  async prepare(spec) {
    const phase = this.phase.value;
    const first = (phase === "idle" && !this.problem.value) || (phase === "ready" && !isSame(spec, this.spec.value));
    if (this.numSteps.value === 0 && first) await this.#requestSteps(spec, 0);
  }

  /** Take one step in every lane, which are set up if necessary. Returns whether it was taken. @param {RunSpec} spec */
  async step(spec) {
    return this.#requestSteps(spec, 1);
  }

  /** Step until every lane is done, or until `pause`. @param {RunSpec} spec */
  async run(spec) {
    return this.#requestSteps(spec, Infinity);
  }

  /** Stop after the current step. */
  pause() {
    if (this.phase.value !== "running") return;
    this.workId += 1;
    this.wake();
  }

  /** Discard the runs. The next step starts new ones in the same sessions. */
  reset() {
    this.#end();
    this.logs.value = this.spec.value = null;
  }

  /** Start new runs. The previous ones stay visible, at their start, until the new ones exist. @param {RunSpec} spec */
  async restart(spec) {
    this.#end();
    await this.#requestSteps(spec, 0);
  }

  #end() {
    this.workId += 1;
    this.runsId += 1;
    this.pendingSteps = 0;
    this.wake();
    batch(() => {
      this.problem.value = null;
      this.numSteps.value = 0;
      this.phase.value = "idle";
    });
  }

  /** Pause the lanes when the panel closes, and close their sessions if there is nothing to continue. */
  leave() {
    this.pendingSteps = 0;
    this.pause();
    if (this.numSteps.value === 0) this.reset();
    if (this.phase.value === "idle" || this.phase.value === "done") this.theaters.leave();
  }

  /** @param {RunSpec} spec @param {number} count number of steps; stored while the lanes are set up */
  async #requestSteps(spec, count) {
    this.pendingSteps = count;
    if (this.phase.value === "opening" || !(await this.#ready(spec))) return false;
    const steps = this.pendingSteps;
    this.pendingSteps = 0;
    return steps > 0 && this.#stepAll(steps);
  }

  /**
   * Return whether the lanes can take a step of the spec, after setting them up if necessary.
   * @param {RunSpec} spec
   * @returns {Promise<boolean>}
   */
  async #ready(spec) {
    const { value: phase } = this.phase;
    if (phase === "ready" && (this.numSteps.value > 0 || isSame(spec, this.spec.value))) return true;
    if (phase !== "idle" && phase !== "ready") return false;
    const workId = ++this.workId;
    batch(() => {
      this.phase.value = "opening";
      this.problem.value = null;
    });
    this.#setNames(Object.keys(spec.configs));
    const before = this.opening;
    let opened = () => {};
    this.opening = new Promise((done) => (opened = done));
    try {
      await before;
      if (workId !== this.workId) return false;
      const logs = this.recorded ? await recordedLanes(this.names, this.recorded) : await this.theaters.setUp(spec);
      if (workId !== this.workId) return false;
      this.#begin(spec, logs);
      return !this.recorded;
    } catch (error) {
      return workId === this.workId && this.#fail(error);
    } finally {
      opened();
    }
  }

  /** Set the names of the lanes; sessions of other lanes are closed. @param {string[]} names */
  #setNames(names) {
    if (names.join() === this.names.join()) return;
    this.theaters.leave();
    this.names = this.theaters.names = names;
  }

  /** @param {RunSpec} spec @param {TraceLog[]} logs */
  #begin(spec, logs) {
    this.runsId += 1;
    batch(() => {
      this.spec.value = spec;
      this.logs.value = logs;
      this.numSteps.value = this.recorded ? Math.max(...logs.map((log) => stepRecords(log).length)) : 0;
      this.phase.value = this.recorded ? "done" : "ready";
    });
  }

  /**
   * Step the lanes one after another, so that a step never shares the machine with another lane's. Returns whether a
   * step was taken.
   * @param {number} count
   * @returns {Promise<boolean>}
   */
  async #stepAll(count) {
    const workId = ++this.workId;
    const [runsId, { lanes }] = [this.runsId, this.theaters];
    // replaced or lost, which has been reported
    const isStale = () => this.runsId !== runsId || this.theaters.lanes !== lanes;
    let numTaken = 0;
    this.phase.value = count > 1 ? "running" : "stepping";
    try {
      for (; numTaken < count && workId === this.workId; numTaken++) {
        const began = performance.now();
        for (const lane of lanes) {
          if (isStale()) return numTaken > 0;
          if (!lane.unfinished) continue;
          const length = await this.theaters.step(lane);
          if (isStale()) return numTaken > 0;
          await lane.arrival(length);
        }
        if (isStale()) return numTaken > 0;
        const last = !lanes.some((lane) => lane.unfinished);
        batch(() => {
          this.numSteps.value += 1;
          if (last) this.phase.value = "done";
        });
        if (last) return true;
        const speed = settings.speed.peek();
        if (numTaken + 1 < count && speed) await this.#pauseFor(1000 / speed - (performance.now() - began));
      }
      if (!isStale()) this.phase.value = "ready";
    } catch (error) {
      if (!isStale()) this.#fail(error);
    }
    return numTaken > 0;
  }

  /** Wait for `ms`, or until the lanes are paused. @param {number} ms @returns {Promise<void> | undefined} */
  #pauseFor(ms) {
    if (ms <= 0) return undefined;
    return new Promise((done) => {
      const timer = setTimeout(done, ms);
      this.wake = () => (clearTimeout(timer), done());
    });
  }

  /** Handle the loss of the connection or of a session. The logs stay visible; the next run starts over. */
  #lost(message = "") {
    if (!this.theaters.lanes.length) return;
    const isOver = this.phase.value === "idle" || this.phase.value === "done";
    this.workId += 1;
    this.theaters.leave();
    if (!isOver) this.#fail(lost(message));
  }

  /** Report an error; the next run starts over. @param {unknown} error @returns {false} */
  #fail(error) {
    if (!(error instanceof Refusal)) console.error(error);
    this.theaters.leave();
    batch(() => {
      const { message, objection } = error instanceof Refusal ? error : { message: "", objection: null };
      this.problem.value = { message, ...(message && objection && { objection }) };
      this.phase.value = "idle";
    });
    return false;
  }
}
