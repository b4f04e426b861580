// Connection as the session uses it: of several requested runs, the last requested is followed.

import { effect } from "../../vendor/signals/signals.js";
import { isLoading } from "../state/store.js";
import { Client, NoAnswer, Refusal } from "./client.js";
import { rememberSession } from "./created_sessions.js";

/** @import {Joined} from "../core/wire.js" */
/** @import {Handlers} from "./client.js" */

/** @typedef {(answer: Joined) => void} AnswerHandler */

const AGAIN = 1000; // ms until a busy server is retried, plus up to as much at random

export class Link {
  /** Whether the server is reachable now. */
  isOnline = false;
  /** @type {((reached: boolean) => void)[]} */
  #awaiting = [];
  /**
   * Last request: a session or recording, or a new session (null). A new object for each request.
   * @type {{theater: string | null}}
   */
  wish = { theater: null };
  isClosed = false;
  #keeps;

  /**
   * @param {Handlers} handlers called for server events until the link is closed
   * @param {(theater: string) => boolean} keeps whether the page shows that session or will return to it
   */
  constructor({ connect, disconnect, barred, ...events }, keeps) {
    this.#keeps = keeps;
    /** @type {Handlers} */
    const handlers = {
      ...events,
      connect: () => (this.#reached(true), connect()),
      disconnect: (reason) => ((this.isOnline = false), disconnect(reason)),
      barred,
    };
    const whileOpen = Object.entries(handlers).map(([event, handle]) => [
      event,
      /** @param {any} message of the type that `handle` takes, see Handlers */
      (message) => void (this.isClosed || handle(message)),
    ]);
    this.client = new Client(Object.fromEntries(whileOpen));
  }

  /** Close the link for good: pending requests throw NoAnswer. */
  close() {
    this.isClosed = true;
    this.#reached(false);
    this.client.disconnect();
  }

  /** Wait until the server is reachable. Resolves to false if the link is closed first. @returns {Promise<boolean>} */
  async reachable() {
    if (this.isOnline || this.isClosed) return this.isOnline;
    return new Promise((done) => this.#awaiting.push(done));
  }

  /**
   * Run `ask` as soon as the server is reachable, and again if the connection is lost before a response. Other errors
   * of `ask` propagate.
   * @param {() => Promise<unknown>} ask
   * @param {() => boolean} wanted whether the result is still needed
   */
  async insist(ask, wanted) {
    while ((await this.reachable()) && wanted())
      try {
        return void (await ask());
      } catch (error) {
        if (!(error instanceof NoAnswer)) throw error;
      }
  }

  /** @param {boolean} yes whether the server is reachable now */
  #reached(yes) {
    this.isOnline = yes;
    for (const done of this.#awaiting.splice(0)) done(yes);
  }

  /**
   * Join a session or recording; `known` describes what is already loaded. Throws Refusal or NoAnswer.
   * @param {string} theater
   * @param {{from: number, epoch?: number}} known
   * @param {AnswerHandler} onAnswer gets the response before any later message
   */
  async join(theater, known, onAnswer) {
    await this.joinAgain({ theater, ...known }, this.#ifLast({ theater }, onAnswer));
  }

  /**
   * Rejoin the followed run without superseding a requested one. Throws Refusal or NoAnswer.
   * @param {{theater: string, from: number, epoch?: number}} known
   * @param {AnswerHandler} onAnswer as for `join`
   */
  async joinAgain(known, onAnswer) {
    const { wish } = this;
    for (;;)
      try {
        return void (await this.client.ask(
          "join",
          { ...known, captures: true, windows: true },
          { onAnswer: onAnswer },
        ));
      } catch (error) {
        // the unread messages of this browser's lost connection block the server for some seconds
        if (!(error instanceof Refusal && error.code === "busy")) throw error;
        await new Promise((done) => setTimeout(done, AGAIN * (1 + Math.random())));
        if (this.isClosed || !this.isOnline || this.wish !== wish)
          throw new NoAnswer("gone, or another run was asked for meanwhile");
      }
  }

  /**
   * Create a session as soon as the server's model is loaded, and follow it. Throws Refusal or NoAnswer.
   * @param {() => {config: Record<string, unknown>, model: string | null}} wanted evaluated at creation: the settings
   * may depend on the model
   * @param {AnswerHandler} onAnswer as for `join`
   */
  async create(wanted, onAnswer) {
    const wish = { theater: null };
    const handle = this.#ifLast(wish, onAnswer);
    /** @param {Joined} answer */
    const made = (answer) => {
      rememberSession(answer.theater);
      handle(answer);
    };
    for (;;)
      try {
        return void (await this.client.ask("create", { ...wanted(), captures: true }, { onAnswer: made }));
      } catch (error) {
        if (!(error instanceof Refusal && error.code === "loading")) throw error;
        await loaded();
        if (this.isClosed || !this.isOnline || this.wish !== wish)
          throw new NoAnswer("gone, or another run was asked for meanwhile");
      }
  }

  /** Keep the followed run: earlier requests no longer replace it. @param {string} theater */
  stay(theater) {
    this.wish = { theater };
  }

  /** Stop viewing a session; a closed session need not be left. @param {string} theater */
  leave(theater) {
    this.client.ask("leave", { theater }).catch(() => {});
  }

  /** @param {{theater: string | null}} wish @param {AnswerHandler} onAnswer @returns {AnswerHandler} */
  #ifLast(wish, onAnswer) {
    this.wish = wish;
    return (answer) => {
      if (wish === this.wish) onAnswer(answer);
      // superseded by another request: a session that is not shown must not count this page as a viewer
      else if (answer.theater !== this.wish.theater && !this.#keeps(answer.theater)) this.leave(answer.theater);
    };
  }
}

/** Wait until the server's model is loaded, has failed to load, or the connection is lost. */
async function loaded() {
  /** @type {() => void} */
  let stop = () => {};
  await new Promise((done) => {
    stop = effect(() => void (isLoading.value || done(null)));
  });
  stop();
}
