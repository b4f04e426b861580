// Several runs in lockstep: one theater for each lane, on a connection of their own, stepped together. The page's own
// run is left alone. On a site the lanes were recorded, and are there whole at once.

import { batch, signal } from "../../vendor/signals/signals.js";
import { Refusal } from "../net/client.js";
import { settings } from "../state/settings.js";
import { isSite } from "../state/site.js";
import { recordedLanes } from "./recorded.js";
import { stepRecords } from "./steps.js";
import { lost, Theaters } from "./theaters.js";

/**
 * @typedef {import("../core/log.js").TraceLog} TraceLog
 *
 * `configs`: by lane, in their order. `models`: those that lanes are on, by lane; not named: the server's first.
 * @typedef {Record<string, unknown>} Fields of EngineConfig or SamplingParams
 * @typedef {{
 *   configs: Record<string, Fields>, prompts: string[], sampling: Fields, models?: Record<string, string | null>,
 * }} Wish
 * `stepping`: one step, `running`: as many as there are.
 * @typedef {"idle" | "opening" | "ready" | "stepping" | "running" | "done"} Phase
 *
 * Why lanes could not go on: what the server said, or "" when the connection or a theater is lost.
 * @typedef {{message: string, objection?: import("../core/trace.js").Objection}} Problem
 */

/** @type {(a: Wish, b: Wish | null) => boolean} */
export const isSame = (a, b) => JSON.stringify(a) === JSON.stringify(b);

/**
 * Lanes by name, each with a configuration of its own; what they are asked is the same. A lane's theater is kept for
 * the next wish, so the configs of a wish name every field in which wishes differ.
 */
export class Lockstep {
  /**
   * `kind`: what the theaters are called after; `captures`: whether the lanes' arrays are wanted. `recorded`: where
   * there is no server, what the lane `name` of a wish is called among the recorded runs.
   * @param {string} kind
   * @param {string[]} names
   * @param {{captures?: boolean, recorded?: ((name: string) => string) | null}} [options]
   */
  constructor(kind, names, { captures = false, recorded = null } = {}) {
    this.recorded = isSite ? recorded : null;
    this.kind = kind;
    this.names = names;
    this.phase = signal(/** @type {Phase} */ ("idle"));
    /** The lanes' logs in the order of `names`; null before the first run. They grow: `numSteps` says how far. */
    this.logs = signal(/** @type {TraceLog[] | null} */ (null));
    /** Steps that the lanes have taken together. */
    this.numSteps = signal(0);
    /** The wish that the logs answer, or null. */
    this.asked = signal(/** @type {Wish | null} */ (null));
    /** Why it could not go on, or null. */
    this.problem = signal(/** @type {Problem | null} */ (null));
    this.theaters = new Theaters(kind, names, captures, {
      lost: (message) => this.#lost(message),
      failed: (error) => this.#fail(error),
    });
    this.turn = 0; // grows when whatever is under way is to stop
    this.life = 0; // grows when the runs are other ones
    this.wanted = 0; // steps to take as soon as the lanes are set up
    /** @type {Promise<void>} */
    this.opening = Promise.resolve(); // one setting up after the other: they use the same theaters
    this.wake = () => {}; // ends the rest between two steps
  }

  /**
   * Have the lanes ready for the wish, with nothing computed: where they have taken no step, and wait for another one.
   * @param {Wish} wish
   */
  async prepare(wish) {
    const phase = this.phase.value;
    const first = (phase === "idle" && !this.problem.value) || (phase === "ready" && !isSame(wish, this.asked.value));
    if (this.numSteps.value === 0 && first) await this.#take(wish, 0);
  }

  /**
   * Take one step in every lane, after setting the lanes up if they are not. Whether it was taken.
   * @param {Wish} wish
   */
  async step(wish) {
    return this.#take(wish, 1);
  }

  /**
   * Step until every lane is done, or `pause`.
   * @param {Wish} wish
   */
  async run(wish) {
    return this.#take(wish, Infinity);
  }

  /** Stop after the step under way. */
  pause() {
    if (this.phase.value !== "running") return;
    this.turn += 1;
    this.wake();
  }

  /** Forget the runs; the next step begins others. The theaters are kept for them. */
  reset() {
    this.#end();
    this.logs.value = this.asked.value = null;
  }

  /**
   * Begin other runs; those before are there until they come, as they were before their first step.
   * @param {Wish} wish
   */
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

  /** The panel is gone: the lanes pause, and give their theaters back where there is nothing to go on with. */
  leave() {
    this.wanted = 0;
    this.pause();
    if (this.numSteps.value === 0) this.reset();
    if (this.phase.value === "idle" || this.phase.value === "done") this.theaters.leave();
  }

  /**
   * @param {Wish} wish
   * @param {number} count steps; while the lanes are set up it is remembered
   */
  async #take(wish, count) {
    this.wanted = count;
    if (this.phase.value === "opening" || !(await this.#ready(wish))) return false;
    const steps = this.wanted;
    this.wanted = 0;
    return steps > 0 && this.#go(steps);
  }

  /**
   * Whether the lanes can take a step of the wish, after setting them up if they are not.
   * @param {Wish} wish
   * @returns {Promise<boolean>}
   */
  async #ready(wish) {
    const { value: phase } = this.phase;
    if (phase === "ready" && (this.numSteps.value > 0 || isSame(wish, this.asked.value))) return true;
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

  /**
   * The lanes are these from now on; theaters of others are given back.
   * @param {string[]} names
   */
  #call(names) {
    if (names.join() === this.names.join()) return;
    this.theaters.leave();
    this.names = this.theaters.names = names;
  }

  /**
   * @param {Wish} wish
   * @param {TraceLog[]} logs
   */
  #begin(wish, logs) {
    this.life += 1;
    batch(() => {
      this.asked.value = wish;
      this.logs.value = logs;
      this.numSteps.value = this.recorded ? Math.max(...logs.map((log) => stepRecords(log).length)) : 0;
      this.phase.value = this.recorded ? "done" : "ready";
    });
  }

  /**
   * One step in each lane, then the next: a step never shares the machine with another lane's. Whether one was taken.
   * @param {number} count
   * @returns {Promise<boolean>}
   */
  async #go(count) {
    const mine = ++this.turn;
    const [life, { lanes }] = [this.life, this.theaters];
    // other runs, or lost meanwhile: it is told already
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

  /**
   * Wait for `ms`, or until the lanes are paused.
   * @param {number} ms
   * @returns {Promise<void> | undefined}
   */
  #rest(ms) {
    if (ms <= 0) return undefined;
    return new Promise((done) => {
      const timer = setTimeout(done, ms);
      this.wake = () => (clearTimeout(timer), done());
    });
  }

  /** The connection or a theater is gone. What was run stays to be looked at; the next begins from the start. */
  #lost(message = "") {
    if (!this.theaters.lanes.length) return;
    const over = this.phase.value === "idle" || this.phase.value === "done";
    this.turn += 1;
    this.theaters.leave();
    if (!over) this.#fail(lost(message));
  }

  /**
   * Say why, and begin anew the next time.
   * @param {unknown} error
   * @returns {false}
   */
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
