// A connection as the session uses it: of the runs that were asked for, the one asked for last is followed.

import { effect } from "../../vendor/signals/signals.js";
import { isLoading } from "../state/store.js";
import { Client, NoAnswer, Refusal } from "./client.js";
import { rememberRun } from "./own_runs.js";

/**
 * @typedef {import("../core/wire.js").Joined} Joined
 * @typedef {import("./client.js").Handlers} Handlers
 * @typedef {(answer: Joined) => void} Heard
 */

const AGAIN = 1000; // ms after which a server that is busy is asked again, and as much more at random

export class Link {
  /** Whether the server can be reached now. */
  isOnline = false;
  /** @type {((reached: boolean) => void)[]} */
  #awaiting = [];
  /**
   * What was asked for last: a theater or recording, or a new theater (null). Another object for each question.
   *
   * @type {{theater: string | null}}
   */
  wish = { theater: null };
  isClosed = false;
  #keeps;

  /**
   * @param {Handlers} handlers get what the server says until the link is closed
   * @param {(theater: string) => boolean} keeps whether the page looks at that theater, or comes back to it
   */
  constructor({ connect, disconnect, barred, ...told }, keeps) {
    this.#keeps = keeps;
    /** @type {Handlers} */
    const handlers = {
      ...told,
      connect: () => (this.#reached(true), connect()),
      disconnect: (reason) => ((this.isOnline = false), disconnect(reason)),
      barred,
    };
    const whileOpen = Object.entries(handlers).map(([event, handle]) => [
      event,
      /** @param {any} message of the kind that `handle` takes: Handlers says which */
      (message) => void (this.isClosed || handle(message)),
    ]);
    this.client = new Client(Object.fromEntries(whileOpen));
  }

  /** Go away for good: questions without an answer throw NoAnswer. */
  close() {
    this.isClosed = true;
    this.#reached(false);
    this.client.disconnect();
  }

  /**
   * Wait until the server can be reached. Fulfilled with false when the link is closed before.
   *
   * @returns {Promise<boolean>}
   */
  async reachable() {
    if (this.isOnline || this.isClosed) return this.isOnline;
    return new Promise((done) => this.#awaiting.push(done));
  }

  /**
   * Do `ask` as soon as the server can be reached, and again when it went away before it answered. What else `ask`
   * throws is thrown.
   *
   * @param {() => Promise<unknown>} ask
   * @param {() => boolean} wanted whether it still is
   */
  async insist(ask, wanted) {
    while ((await this.reachable()) && wanted())
      try {
        return void (await ask());
      } catch (error) {
        if (!(error instanceof NoAnswer)) throw error;
      }
  }

  /** @param {boolean} yes whether the server can be reached now */
  #reached(yes) {
    this.isOnline = yes;
    for (const done of this.#awaiting.splice(0)) done(yes);
  }

  /**
   * Join a theater or recording; with `known` what is here of it already. Throws Refusal or NoAnswer.
   *
   * @param {string} theater
   * @param {{from: number, epoch?: number}} known
   * @param {Heard} heard gets the answer, before anything that the server sends after it
   */
  async join(theater, known, heard) {
    await this.joinAgain({ theater, ...known }, this.#ifLast({ theater }, heard));
  }

  /**
   * Join the run that is followed once more, which takes the place of no run that was asked for. Throws Refusal or
   * NoAnswer.
   *
   * @param {{theater: string, from: number, epoch?: number}} known
   * @param {Heard} heard as of `join`
   */
  async joinAgain(known, heard) {
    const { wish } = this;
    for (;;)
      try {
        return void (await this.client.ask("join", { ...known, captures: true, windows: true }, { heard }));
      } catch (error) {
        // what a lost connection of this browser left unread is in the way for some seconds
        if (!(error instanceof Refusal && error.code === "busy")) throw error;
        await new Promise((done) => setTimeout(done, AGAIN * (1 + Math.random())));
        if (this.isClosed || !this.isOnline || this.wish !== wish)
          throw new NoAnswer("gone, or another run was asked for meanwhile");
      }
  }

  /**
   * Make a theater as soon as the server has its model, and follow it. Throws Refusal or NoAnswer.
   *
   * @param {() => {config: Record<string, unknown>, model: string | null}} wanted is asked when the theater is: the
   * settings may follow from the model
   * @param {Heard} heard as of `join`
   */
  async create(wanted, heard) {
    const wish = { theater: null };
    const hear = this.#ifLast(wish, heard);
    /** @param {Joined} answer */
    const made = (answer) => {
      rememberRun(answer.theater);
      hear(answer);
    };
    for (;;)
      try {
        return void (await this.client.ask("create", { ...wanted(), captures: true }, { heard: made }));
      } catch (error) {
        if (!(error instanceof Refusal && error.code === "loading")) throw error;
        await loaded();
        if (this.isClosed || !this.isOnline || this.wish !== wish)
          throw new NoAnswer("gone, or another run was asked for meanwhile");
      }
  }

  /**
   * Stay with the run that is followed: no run that was asked for before takes its place.
   *
   * @param {string} theater
   */
  stay(theater) {
    this.wish = { theater };
  }

  /**
   * Be a viewer no more; a theater that is closed needs no leaving.
   *
   * @param {string} theater
   */
  leave(theater) {
    this.client.ask("leave", { theater }).catch(() => {});
  }

  /**
   * @param {{theater: string | null}} wish
   * @param {Heard} heard
   * @returns {Heard}
   */
  #ifLast(wish, heard) {
    this.wish = wish;
    return (answer) => {
      if (wish === this.wish) heard(answer);
      // overtaken by another question: what is not looked at must not seem to be watched
      else if (answer.theater !== this.wish.theater && !this.#keeps(answer.theater)) this.leave(answer.theater);
    };
  }
}

/** Fulfilled when the server has its model, or cannot have it, or went away before. */
async function loaded() {
  /** @type {() => void} */
  let stop = () => {};
  await new Promise((done) => {
    stop = effect(() => void (isLoading.value || done(null)));
  });
  stop();
}
