// Several runs in lockstep: one theater for each lane, on a connection of their own, stepped together. The page's own run is
// left alone.

import { batch, computed, signal } from "../../vendor/signals/signals.js";
import { asBytes } from "../core/codec.js";
import { TraceLog } from "../core/log.js";
import { Client, Refusal } from "../net/client.js";

const unfinished = (lane) => lane.log.tail.waiting.length + lane.log.tail.running.length > 0;

/**
 * Lanes by name, each with a configuration of its own; what they are asked is the same. A wish is
 * `{configs: {lane: EngineConfig fields}, prompts: [text, …], sampling}`: a lane's theater is kept for the next wish, so its
 * configs name every field in which wishes differ.
 */
export class Lockstep {
  /** `kind`: what the theaters are called after; `captures`: whether the lanes' arrays are wanted. */
  constructor(kind, names, { captures = false } = {}) {
    this.kind = kind;
    this.names = names;
    this.captures = captures;
    /** idle · opening · ready · running · done */
    this.phase = signal("idle");
    /** The lanes' logs in the order of `names`; null before the first run. They grow: `numSteps` says how far. */
    this.logs = signal(null);
    /** Steps that the lanes have taken together. */
    this.numSteps = signal(0);
    /** The wish that the logs answer, or null. */
    this.asked = signal(null);
    /** Why it could not go on: {message} of the server or {lost: true}; null. */
    this.problem = signal(null);
    /** Steps a second; 0 = as fast as it goes. */
    this.speed = signal(8);
    /** The step that is looked at, or null to follow the run. */
    this.shown = signal(null);
    this.shownStep = computed(() => Math.min(this.shown.value ?? Infinity, this.numSteps.value));
    this.client = null;
    this.connected = null; // a promise while connecting
    this.lanes = []; // {name, theater, epoch, log, waiting: [{length, done, failed}]}
    this.turn = 0; // grows when whatever is under way is to stop
    this.opening = Promise.resolve(); // one setting up after the other: they use the same theaters
    this.wake = () => {}; // ends the rest between two steps
  }

  /** Take one step in every lane, after setting the lanes up if they are not. */
  async step(wish) {
    if (await this.#ready(wish)) await this.#go(1);
  }

  /** Step until every lane is done, or `pause`. */
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

  /** Look at `step`; at or past the newest it is followed. */
  look(step) {
    this.shown.value = step >= this.numSteps.peek() ? null : Math.max(0, step);
  }

  async #ready(wish) {
    if (this.phase.value === "ready") return true;
    if (this.phase.value !== "idle") return false;
    const mine = ++this.turn;
    batch(() => {
      this.phase.value = "opening";
      this.problem.value = null;
    });
    const before = this.opening;
    let opened;
    this.opening = new Promise((done) => (opened = done));
    try {
      await before;
      if (mine !== this.turn) return false;
      await this.#setUp(wish);
      if (mine !== this.turn) return false;
      batch(() => {
        this.asked.value = wish;
        this.logs.value = this.lanes.map((lane) => lane.log);
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

  async #setUp({ configs, prompts, sampling }) {
    await this.#connect();
    for (const name of this.names) await this.#open(name, configs[name]);
    for (const lane of this.lanes) {
      const answer = await this.client.ask("submit", {
        theater: lane.theater,
        prompts: prompts.map((text) => ({ text })),
        sampling,
      });
      await this.#arrival(lane, answer.num_records);
    }
  }

  /** One step in each lane, then the next: a step never shares the machine with another lane's. */
  async #go(count) {
    const mine = ++this.turn;
    const logs = this.logs.value;
    const over = () => this.logs.value !== logs; // reset meanwhile
    this.phase.value = "running";
    try {
      for (let taken = 0; taken < count && mine === this.turn; taken++) {
        const began = performance.now();
        for (const lane of this.lanes) {
          if (over()) return;
          if (!unfinished(lane)) continue;
          const answer = await this.client.ask("step", { theater: lane.theater, expect: lane.log.length });
          if (over()) return;
          await this.#arrival(lane, answer.num_records);
        }
        if (over()) return;
        this.numSteps.value += 1;
        if (!this.lanes.some(unfinished)) return void (this.phase.value = "done");
        if (taken + 1 < count && this.speed.value)
          await this.#rest(1000 / this.speed.value - (performance.now() - began));
      }
      if (!over()) this.phase.value = "ready";
    } catch (error) {
      if (!over()) this.#fail(error);
    }
  }

  /** Nothing for `ms`, unless somebody pauses. */
  #rest(ms) {
    if (ms <= 0) return undefined;
    return new Promise((done) => {
      const timer = setTimeout(done, ms);
      this.wake = () => (clearTimeout(timer), done());
    });
  }

  /** The lane `name` with an empty log: the theater that is there under the new settings, or a new one. */
  async #open(name, config) {
    let lane = this.lanes.find((known) => known.name === name);
    const answer = lane
      ? await this.client.ask("configure", { theater: lane.theater, config })
      : await this.client.ask("create", { config, name: `${this.kind}: ${name}`, captures: this.captures });
    if (!lane) {
      this.lanes.push((lane = { name, theater: answer.theater, waiting: [] }));
      // where nobody looks at its tensors, they would only cost time
      if (!this.captures) await this.client.ask("focus", { theater: lane.theater, layers: [], heads: null });
    }
    for (const { done } of lane.waiting.splice(0)) done(); // for records of a log that is no more
    lane.epoch = answer.epoch;
    lane.log = new TraceLog(asBytes(answer.header));
  }

  #receive(message) {
    const lane = this.lanes.find((known) => known.theater === message.theater);
    if (!lane || message.epoch !== lane.epoch) return;
    try {
      message.records.forEach((bytes, i) => {
        const captured = message.captures?.[i];
        if (message.first + i === lane.log.length) lane.log.append(asBytes(bytes), captured ? asBytes(captured) : null);
      });
    } catch (error) {
      return this.#fail(error);
    }
    const here = lane.waiting.filter(({ length }) => lane.log.length >= length);
    lane.waiting = lane.waiting.filter((one) => !here.includes(one));
    for (const { done } of here) done();
  }

  /** Resolves when the lane's log has `length` records. */
  #arrival(lane, length) {
    return lane.log.length >= length
      ? undefined
      : new Promise((done, failed) => lane.waiting.push({ length, done, failed }));
  }

  #connect() {
    this.connected ??= new Promise((done) => {
      this.client = new Client({
        connect: done,
        disconnect: () => this.#lost(),
        status: () => {},
        reset: () => {},
        closed: (message) => this.lanes.some((lane) => lane.theater === message.theater) && this.#lost(message.reason),
        records: (message) => this.#receive(message),
      });
    });
    return this.connected;
  }

  /** The connection or a theater is gone. What was run stays to be looked at; the next begins from the start. */
  #lost(message = "") {
    if (!this.lanes.length) return;
    const over = this.phase.value === "idle" || this.phase.value === "done";
    this.turn += 1;
    this.#disconnect();
    if (!over) this.#fail(new Refusal({ code: "lost", message }));
  }

  #disconnect() {
    for (const lane of this.lanes)
      for (const { failed } of lane.waiting) failed(new Refusal({ code: "lost", message: "" }));
    this.lanes = [];
    this.connected = null;
    this.client?.disconnect();
    this.client = null;
  }

  /** Say why, and begin anew the next time. */
  #fail(error) {
    if (!(error instanceof Refusal)) console.error(error);
    this.#disconnect();
    batch(() => {
      this.problem.value =
        error instanceof Refusal && error.message
          ? { message: error.message, ...(error.objection && { objection: error.objection }) }
          : { lost: true };
      this.phase.value = "idle";
    });
    return false;
  }
}
