// Several runs in lockstep: one session per lane on a separate connection, stepped together. The page's own run is not
// affected. On a site the lanes are recordings, complete from the start.

import { batch, signal } from "../../vendor/signals/signals.js";
import { Refusal } from "../net/client.js";
import { settings } from "../state/settings.js";
import { isSite } from "../state/without_server.js";
import { recordedLanes } from "./lane.js";
import { LaneSessions, lost } from "./sessions.js";
import { stepRecords } from "./steps.js";

/** @import {TraceLog} from "../core/log.js" */

/**
 * `configs`: by lane, in order. `models`: by lane; by default the server's first.
 * @typedef {Record<string, unknown>} Fields of EngineConfig or SamplingParams
 * @typedef {{
 *   configs: Record<string, Fields>, prompts: string[], sampling: Fields, models?: Record<string, string | null>,
 * }} Wish
 * `stepping`: one step; `running`: until all lanes are done.
 * @typedef {"idle" | "opening" | "ready" | "stepping" | "running" | "done"} Phase
 *
 * Reason that lanes cannot continue: the server's message, or "" if the connection or a session is lost.
 * @typedef {{message: string, objection?: import("../core/trace.js").Objection}} Problem
 */

/** @type {(a: Wish, b: Wish | null) => boolean} */
export const isSame = (a, b) => JSON.stringify(a) === JSON.stringify(b);

/**
 * Lanes by name, each with its own configuration and the same prompts. A lane's session is reused for the next wish, so
 * the configs of a wish name every field in which wishes differ.
 */
export class Lockstep {
  /**
   * `kind`: prefix of the sessions' names; `captures`: whether the lanes' arrays are needed. `recorded`: without a
   * server, maps the lane `name` of a wish to a recorded run.
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
    /** The wish that the logs belong to, or null. */
    this.wish = signal(/** @type {Wish | null} */ (null));
    /** Reason that the lanes cannot continue, or null. */
    this.problem = signal(/** @type {Problem | null} */ (null));
    this.theaters = new LaneSessions(kind, names, captures, {
      lost: (message) => this.#lost(message),
      failed: (error) => this.#fail(error),
    });
    this.turn = 0; // incremented to cancel pending work
    this.life = 0; // incremented when the runs are replaced
    this.wanted = 0; // steps to take once the lanes are set up
    /** @type {Promise<void>} */
    this.opening = Promise.resolve(); // serializes setups, which share the sessions
    this.wake = () => {}; // ends the pause between two steps
  }

  /**
   * Set up the lanes for the wish without computing, unless they have taken steps or already wait for it.
   * @param {Wish} wish
   */
  async prepare(wish) {
    const phase = this.phase.value;
    const first = (phase === "idle" && !this.problem.value) || (phase === "ready" && !isSame(wish, this.wish.value));
    if (this.numSteps.value === 0 && first) await this.#take(wish, 0);
  }

  /**
   * Take one step in every lane, after setting the lanes up if necessary. Returns whether it was taken.
   * @param {Wish} wish
   */
  async step(wish) {
    return this.#take(wish, 1);
  }

  /** Step until every lane is done, or until `pause`. @param {Wish} wish */
  async run(wish) {
    return this.#take(wish, Infinity);
  }

  /** Stop after the current step. */
  pause() {
    if (this.phase.value !== "running") return;
    this.turn += 1;
    this.wake();
  }

  /** Discard the runs; the next step starts new ones in the same sessions. */
  reset() {
    this.#end();
    this.logs.value = this.wish.value = null;
  }

  /** Start new runs; the previous ones stay visible, at their start, until the new ones exist. @param {Wish} wish */
  async restart(wish) {
    this.#end();
    await this.#take(wish, 0);
  }

  #end() {
    this.turn += 1;
    this.life += 1;
    this.wanted = 0;
    this.wake();
    batch(() => {
      this.problem.value = null;
      this.numSteps.value = 0;
      this.phase.value = "idle";
    });
  }

  /** Pause the lanes when the panel closes, and close their sessions if there is nothing to continue. */
  leave() {
    this.wanted = 0;
    this.pause();
    if (this.numSteps.value === 0) this.reset();
    if (this.phase.value === "idle" || this.phase.value === "done") this.theaters.leave();
  }

  /** @param {Wish} wish @param {number} count steps; stored while the lanes are set up */
  async #take(wish, count) {
    this.wanted = count;
    if (this.phase.value === "opening" || !(await this.#ready(wish))) return false;
    const steps = this.wanted;
    this.wanted = 0;
    return steps > 0 && this.#go(steps);
  }

  /**
   * Return whether the lanes can take a step of the wish, after setting them up if necessary.
   * @param {Wish} wish
   * @returns {Promise<boolean>}
   */
  async #ready(wish) {
    const { value: phase } = this.phase;
    if (phase === "ready" && (this.numSteps.value > 0 || isSame(wish, this.wish.value))) return true;
    if (phase !== "idle" && phase !== "ready") return false;
    const mine = ++this.turn;
    batch(() => {
      this.phase.value = "opening";
      this.problem.value = null;
    });
    this.#call(Object.keys(wish.configs));
    const before = this.opening;
    let opened = () => {};
    this.opening = new Promise((done) => (opened = done));
    try {
      await before;
      if (mine !== this.turn) return false;
      const logs = this.recorded ? await recordedLanes(this.names, this.recorded) : await this.theaters.setUp(wish);
      if (mine !== this.turn) return false;
      this.#begin(wish, logs);
      return !this.recorded;
    } catch (error) {
      return mine === this.turn && this.#fail(error);
    } finally {
      opened();
    }
  }

  /** Set the names of the lanes; sessions of other lanes are closed. @param {string[]} names */
  #call(names) {
    if (names.join() === this.names.join()) return;
    this.theaters.leave();
    this.names = this.theaters.names = names;
  }

  /** @param {Wish} wish @param {TraceLog[]} logs */
  #begin(wish, logs) {
    this.life += 1;
    batch(() => {
      this.wish.value = wish;
      this.logs.value = logs;
      this.numSteps.value = this.recorded ? Math.max(...logs.map((log) => stepRecords(log).length)) : 0;
      this.phase.value = this.recorded ? "done" : "ready";
    });
  }

  /**
   * Step the lanes one after the other, so that a step never shares the machine with another lane's. Returns whether a
   * step was taken.
   * @param {number} count
   * @returns {Promise<boolean>}
   */
  async #go(count) {
    const mine = ++this.turn;
    const [life, { lanes }] = [this.life, this.theaters];
    // replaced or lost meanwhile, which is already reported
    const over = () => this.life !== life || this.theaters.lanes !== lanes;
    let taken = 0;
    this.phase.value = count > 1 ? "running" : "stepping";
    try {
      for (; taken < count && mine === this.turn; taken++) {
        const began = performance.now();
        for (const lane of lanes) {
          if (over()) return taken > 0;
          if (!lane.unfinished) continue;
          const length = await this.theaters.step(lane);
          if (over()) return taken > 0;
          await lane.arrival(length);
        }
        if (over()) return taken > 0;
        const last = !lanes.some((lane) => lane.unfinished);
        batch(() => {
          this.numSteps.value += 1;
          if (last) this.phase.value = "done";
        });
        if (last) return true;
        const speed = settings.speed.peek();
        if (taken + 1 < count && speed) await this.#rest(1000 / speed - (performance.now() - began));
      }
      if (!over()) this.phase.value = "ready";
    } catch (error) {
      if (!over()) this.#fail(error);
    }
    return taken > 0;
  }

  /** Wait for `ms`, or until the lanes are paused. @param {number} ms @returns {Promise<void> | undefined} */
  #rest(ms) {
    if (ms <= 0) return undefined;
    return new Promise((done) => {
      const timer = setTimeout(done, ms);
      this.wake = () => (clearTimeout(timer), done());
    });
  }

  /** Handle the loss of the connection or of a session. The logs stay visible; the next run starts over. */
  #lost(message = "") {
    if (!this.theaters.lanes.length) return;
    const over = this.phase.value === "idle" || this.phase.value === "done";
    this.turn += 1;
    this.theaters.leave();
    if (!over) this.#fail(lost(message));
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
