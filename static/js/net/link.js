// Connection of the session. If several runs are requested, the last one is followed.

import { effect } from "../../vendor/signals/signals.js";
import { isLoading } from "../state/store.js";
import { Client, NoAnswer, Refusal } from "./client.js";
import { rememberSession } from "./created_sessions.js";

/** @import {Joined} from "../core/wire.js" */
/** @import {Handlers} from "./client.js" */

/** @typedef {(answer: Joined) => void} AnswerHandler */

const RETRY_MS = 1000; // until a busy server is retried, plus a random time of up to as much

export class Link {
  /** Whether the server is reachable. */
  isOnline = false;
  /** @type {((reached: boolean) => void)[]} */
  #awaiting = [];
  /**
   * Last requested session or recording; null: a new session. A new object for each request.
   * @type {{theater: string | null}}
   */
  request = { theater: null };
  isClosed = false;
  #keeps;

  /**
   * @param {Handlers} handlers called for server events until the link is closed
   * @param {(theater: string) => boolean} keeps whether the page shows that session or may return to it
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
      /** @param {any} message of the type in Handlers */
      (message) => void (this.isClosed || handle(message)),
    ]);
    this.client = new Client(Object.fromEntries(whileOpen));
  }

  /** Close the link permanently. Pending requests throw NoAnswer. */
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
   * @param {() => boolean} isNeeded whether the result is still needed
   */
  async askPersistently(ask, isNeeded) {
    while ((await this.reachable()) && isNeeded())
      try {
        return void (await ask());
      } catch (error) {
        if (!(error instanceof NoAnswer)) throw error;
      }
  }

  /** @param {boolean} isOnline whether the server is reachable */
  #reached(isOnline) {
    this.isOnline = isOnline;
    for (const done of this.#awaiting.splice(0)) done(isOnline);
  }

  /**
   * Join a session or recording; `known`: the records already loaded. Throws Refusal or NoAnswer.
   * @param {string} theater
   * @param {{from: number, epoch?: number}} known
   * @param {AnswerHandler} onAnswer gets the response before any later message
   */
  async join(theater, known, onAnswer) {
    await this.rejoin({ theater, ...known }, this.#ifLatest({ theater }, onAnswer));
  }

  /**
   * Rejoin the followed run, without replacing a requested one. Throws Refusal or NoAnswer.
   * @param {{theater: string, from: number, epoch?: number}} known
   * @param {AnswerHandler} onAnswer as for `join`
   */
  async rejoin(known, onAnswer) {
    const { request } = this;
    for (;;)
      try {
        return void (await this.client.ask(
          "join",
          { ...known, captures: true, windows: true },
          { onAnswer: onAnswer },
        ));
      } catch (error) {
        // unread messages of this browser's lost connection may block the server for some seconds
        if (!(error instanceof Refusal && error.code === "busy")) throw error;
        await new Promise((done) => setTimeout(done, RETRY_MS * (1 + Math.random())));
        if (this.isClosed || !this.isOnline || this.request !== request)
          throw new NoAnswer("gone, or another run was asked for meanwhile");
      }
  }

  /**
   * Create a session as soon as the server's model is loaded, and follow it. Throws Refusal or NoAnswer.
   * @param {() => {config: Record<string, unknown>, model: string | null}} settings called at creation, as settings
   * may depend on the model
   * @param {AnswerHandler} onAnswer as for `join`
   */
  async create(settings, onAnswer) {
    const request = { theater: null };
    const handle = this.#ifLatest(request, onAnswer);
    /** @param {Joined} answer */
    const onCreated = (answer) => {
      rememberSession(answer.theater);
      handle(answer);
    };
    for (;;)
      try {
        return void (await this.client.ask("create", { ...settings(), captures: true }, { onAnswer: onCreated }));
      } catch (error) {
        if (!(error instanceof Refusal && error.code === "loading")) throw error;
        await loaded();
        if (this.isClosed || !this.isOnline || this.request !== request)
          throw new NoAnswer("gone, or another run was asked for meanwhile");
      }
  }

  /** Keep the followed run, so that responses to earlier requests do not replace it. @param {string} theater */
  keep(theater) {
    this.request = { theater };
  }

  /** Stop viewing a session; a closed session need not be left. @param {string} theater */
  leave(theater) {
    this.client.ask("leave", { theater }).catch(() => {});
  }

  /** @param {{theater: string | null}} request @param {AnswerHandler} onAnswer @returns {AnswerHandler} */
  #ifLatest(request, onAnswer) {
    this.request = request;
    return (answer) => {
      if (request === this.request) onAnswer(answer);
      // another run was requested since: a session that is not shown must not count this page as a viewer
      else if (answer.theater !== this.request.theater && !this.#keeps(answer.theater)) this.leave(answer.theater);
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
