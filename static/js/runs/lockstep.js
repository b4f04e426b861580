// Several runs in lockstep: one theater for each lane, on a connection of their own, stepped together. The page's own
// run is left alone.

import { batch, computed, signal } from "../../vendor/signals/signals.js";
import { Client, Refusal } from "../net/client.js";
import { isSite } from "../state/site.js";
import { Lane } from "./lane.js";
import { areAtTheirEnds, recordedLanes } from "./recorded.js";

/**
 * @typedef {import("../core/log.js").TraceLog} TraceLog
 *
 * `configs`: by lane.
 * @typedef {Record<string, unknown>} Fields of EngineConfig or SamplingParams
 * @typedef {{configs: Record<string, Fields>, prompts: string[], sampling: Fields}} Wish
 * @typedef {"idle" | "opening" | "ready" | "running" | "done"} Phase
 *
 * Why lanes could not go on: what the server said, or "" when the connection or a theater is lost.
 * @typedef {{message: string, objection?: import("../core/trace.js").Objection}} Problem
 */

const lost = (message = "") => new Refusal({ code: "lost", message });

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
    this.captures = captures;
    this.phase = signal(/** @type {Phase} */ ("idle"));
    /** The lanes' logs in the order of `names`; null before the first run. They grow: `numSteps` says how far. */
    this.logs = signal(/** @type {TraceLog[] | null} */ (null));
    /** Steps that the lanes have taken together. */
    this.numSteps = signal(0);
    /** The wish that the logs answer, or null. */
    this.asked = signal(/** @type {Wish | null} */ (null));
    /** Why it could not go on, or null. */
    this.problem = signal(/** @type {Problem | null} */ (null));
    /** Steps a second; 0 = as fast as it goes. */
    this.speed = signal(8);
    /** The step that is looked at, or null to follow the run. */
    this.shown = signal(/** @type {number | null} */ (null));
    this.shownStep = computed(() => Math.min(this.shown.value ?? Infinity, this.numSteps.value));
    /** @type {Client | null} */
    this.client = null;
    /** @type {Promise<Client> | null} what it is, or while connecting will be */
    this.connected = null;
    /** @type {Lane[]} */
    this.lanes = [];
    this.turn = 0; // grows when whatever is under way is to stop
    /** @type {Promise<void>} */
    this.opening = Promise.resolve(); // one setting up after the other: they use the same theaters
    this.wake = () => {}; // ends the rest between two steps
  }

  /**
   * Take one step in every lane, after setting the lanes up if they are not.
   * @param {Wish} wish
   */
  async step(wish) {
    if (await this.#ready(wish)) await this.#go(1);
  }

  /**
   * Step until every lane is done, or `pause`.
   * @param {Wish} wish
   */
  async run(wish) {
    if (await this.#ready(wish)) await this.#go(Infinity);
  }

  /** Stop after the step under way. */
  pause() {
    if (this.phase.value !== "running") return;
    this.turn += 1;
    this.wake();
  }

  /** Forget the runs; the next step begins others. The theaters are kept for them. */
  reset() {
    this.turn += 1;
    this.wake();
    batch(() => {
      this.logs.value = this.asked.value = this.problem.value = this.shown.value = null;
      this.numSteps.value = 0;
      this.phase.value = "idle";
    });
  }

  /** The panel is gone: lanes that are not under way give their theaters back. */
  leave() {
    if (this.phase.value === "idle" || this.phase.value === "done") this.#disconnect();
  }

  /**
   * Look at `step`; at or past the newest it is followed.
   * @param {number} step
   */
  look(step) {
    this.shown.value = step >= this.numSteps.peek() ? null : Math.max(0, step);
  }

  /**
   * Whether the lanes can take a step of the wish, after setting them up if they are not.
   * @param {Wish} wish
   * @returns {Promise<boolean>}
   */
  async #ready(wish) {
    if (this.phase.value === "ready") return true;
    if (this.phase.value !== "idle") return false;
    const mine = ++this.turn;
    batch(() => {
      this.phase.value = "opening";
      this.problem.value = null;
    });
    const before = this.opening;
    let opened = () => {};
    this.opening = new Promise((done) => (opened = done));
    try {
      await before;
      if (mine !== this.turn) return false;
      const logs = this.recorded ? await recordedLanes(this.names, this.recorded) : await this.#setUp(wish);
      if (mine !== this.turn) return false;
      batch(() => {
        this.asked.value = wish;
        this.logs.value = logs;
        this.numSteps.value = 0;
        this.phase.value = "ready";
      });
      return true;
    } catch (error) {
      return mine === this.turn && this.#fail(error);
    } finally {
      opened();
    }
  }

  /** @param {Wish} wish */
  async #setUp({ configs, prompts, sampling }) {
    const client = await this.#connect();
    for (const name of this.names) await this.#open(client, name, configs[name]);
    for (const lane of this.lanes) {
      const asked = { theater: lane.theater, prompts: prompts.map((text) => ({ text })), sampling };
      const { num_records } = await client.ask("submit", asked);
      await lane.arrival(num_records);
    }
    return this.lanes.map((lane) => lane.log);
  }

  /**
   * One step in each lane, then the next: a step never shares the machine with another lane's.
   * @param {number} count
   */
  async #go(count) {
    const mine = ++this.turn;
    const [logs, lanes] = [this.logs.value, this.lanes];
    const over = () => this.logs.value !== logs || this.lanes !== lanes; // reset or lost meanwhile: it is told already
    this.phase.value = "running";
    try {
      for (let taken = 0; taken < count && mine === this.turn; taken++) {
        const began = performance.now();
        for (const lane of lanes) {
          if (over()) return;
          if (!lane.unfinished) continue;
          const { num_records } = await this.#here().ask("step", { theater: lane.theater, expect: lane.log.length });
          if (over()) return;
          await lane.arrival(num_records);
        }
        if (over()) return;
        this.numSteps.value += 1;
        if (this.#areDone()) return void (this.phase.value = "done");
        if (taken + 1 < count && this.speed.value)
          await this.#rest(1000 / this.speed.value - (performance.now() - began));
      }
      if (!over()) this.phase.value = "ready";
    } catch (error) {
      if (!over()) this.#fail(error);
    }
  }

  #areDone() {
    return this.recorded
      ? areAtTheirEnds(this.logs.value ?? [], this.numSteps.value)
      : !this.lanes.some((lane) => lane.unfinished);
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

  /**
   * The lane `name` with an empty log: the theater that is there under the new settings, or a new one.
   * @param {Client} client
   * @param {string} name
   * @param {Record<string, unknown>} config
   */
  async #open(client, name, config) {
    const known = this.lanes.find((lane) => lane.name === name);
    if (known) return known.begin(await client.ask("configure", { theater: known.theater, config }));
    const about = { config, name: `${this.kind}: ${name}`, captures: this.captures };
    const { theater, ...begun } = await client.ask("create", about);
    this.lanes.push(new Lane(name, theater, begun));
    // where no one looks at its tensors, they would only cost time
    if (!this.captures) await client.ask("focus", { theater, layers: [], heads: null });
  }

  /** @param {import("../core/wire.js").Records} message */
  #receive(message) {
    try {
      this.lanes.find((lane) => lane.theater === message.theater)?.receive(message);
    } catch (error) {
      this.#fail(error);
    }
  }

  /** @returns {Promise<Client>} */
  #connect() {
    this.connected ??= new Promise((done) => {
      const client = new Client({
        connect: () => done(client),
        disconnect: () => this.#lost(),
        status: () => {},
        reset: () => {},
        closed: (/** @type {import("../core/wire.js").Closed} */ message) =>
          this.lanes.some((lane) => lane.theater === message.theater) && this.#lost(message.reason),
        records: (/** @type {import("../core/wire.js").Records} */ message) => this.#receive(message),
      });
      this.client = client;
    });
    return this.connected;
  }

  /** The connection that there is. Throws Refusal when it was lost. */
  #here() {
    if (!this.client) throw lost();
    return this.client;
  }

  /** The connection or a theater is gone. What was run stays to be looked at; the next begins from the start. */
  #lost(message = "") {
    if (!this.lanes.length) return;
    const over = this.phase.value === "idle" || this.phase.value === "done";
    this.turn += 1;
    this.#disconnect();
    if (!over) this.#fail(lost(message));
  }

  #disconnect() {
    for (const lane of this.lanes) lane.lose(lost());
    this.lanes = [];
    this.connected = null;
    this.client?.disconnect();
    this.client = null;
  }

  /**
   * Say why, and begin anew the next time.
   * @param {unknown} error
   * @returns {false}
   */
  #fail(error) {
    if (!(error instanceof Refusal)) console.error(error);
    this.#disconnect();
    batch(() => {
      const { message, objection } = error instanceof Refusal ? error : { message: "", objection: null };
      this.problem.value = { message, ...(message && objection && { objection }) };
      this.phase.value = "idle";
    });
    return false;
  }
}
