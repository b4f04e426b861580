// A connection as the session uses it: of the runs that were asked for, the one asked for last is followed.

import { Client } from "./client.js";

/**
 * @typedef {import("../core/wire.js").Joined} Joined
 * @typedef {import("./client.js").Handlers} Handlers
 * @typedef {(answer: Joined) => void} Heard
 */

export class Link {
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
  constructor(handlers, keeps) {
    this.#keeps = keeps;
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
    this.client.disconnect();
  }

  /**
   * Join a theater or recording; with `known` what is here of it already. Throws Refusal or NoAnswer.
   *
   * @param {string} theater
   * @param {{from: number, epoch?: number}} known
   * @param {Heard} heard gets the answer, before anything that the server sends after it
   */
  async join(theater, known, heard) {
    const hear = this.#ifLast({ theater }, heard);
    await this.client.ask("join", { theater, captures: true, ...known }, { heard: hear });
  }

  /**
   * Make a theater, and follow it. Throws Refusal or NoAnswer.
   *
   * @param {Record<string, unknown>} config
   * @param {Heard} heard as of `join`
   */
  async create(config, heard) {
    const hear = this.#ifLast({ theater: null }, heard);
    await this.client.ask("create", { config, captures: true }, { heard: hear });
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
