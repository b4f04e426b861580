// Sessions of the lanes: one per lane, on a separate connection.

import { Client, Refusal } from "../net/client.js";
import { Lane } from "./lane.js";

/** @import {Records} from "../core/wire.js" */
/** @import {RunSpec} from "./lockstep.js" */

const RETRY_MS = 500; // until a loading model is requested again

/** Return the error for a lost session, or without a message for a lost connection. */
export const lost = (message = "") => new Refusal({ code: "lost", message });

export class LaneSessions {
  /** @type {Lane[]} */
  lanes = [];
  /** @type {Client | null} */
  #client = null;
  /** @type {Promise<Client> | null} the connection, pending while connecting */
  #connected = null;

  /**
   * `lost(reason)`: the connection ("") or a session is lost; `failed(error)`: a record does not follow from the log.
   * @param {string} kind prefix of the sessions' names
   * @param {string[]} names of the lanes
   * @param {boolean} captures whether the lanes' arrays are needed
   * @param {{lost: (reason: string) => void, failed: (error: unknown) => void}} handlers
   */
  constructor(kind, names, captures, handlers) {
    this.kind = kind;
    this.names = names;
    this.captures = captures;
    this.handlers = handlers;
  }

  /** Set up every lane with the spec's prompts queued. Returns their logs. @param {RunSpec} spec */
  async setUp({ configs, prompts, sampling, models = {} }) {
    const client = await this.#connect();
    for (const name of this.names) await this.#open(client, name, configs[name], models[name] ?? null);
    for (const lane of this.lanes) {
      const message = { theater: lane.theater, prompts: prompts.map((text) => ({ text })), sampling };
      const { num_records } = await client.ask("submit", message);
      await lane.arrival(num_records);
    }
    return this.lanes.map((lane) => lane.log);
  }

  /** Take a step in a lane. Returns its log's length afterwards. Throws Refusal if it fails. @param {Lane} lane */
  async step(lane) {
    if (!this.#client) throw lost();
    return (await this.#client.ask("step", { theater: lane.theater, expect: lane.log.length })).num_records;
  }

  /** Close the sessions. */
  leave() {
    for (const lane of this.lanes) lane.lose(lost());
    this.lanes = [];
    this.#connected = null;
    this.#client?.disconnect();
    this.#client = null;
  }

  /**
   * Open the lane `name` with an empty log: in its existing session with new settings, or in a new one.
   * @param {Client} client
   * @param {string} name
   * @param {Record<string, unknown>} config
   * @param {string | null} model null: the session's own, for a new one the server's first
   */
  async #open(client, name, config, model) {
    const known = this.lanes.find((lane) => lane.name === name);
    if (known)
      return known.begin(await whenLoaded(() => client.ask("configure", { theater: known.theater, config, model })));
    // `alone`: contents stored outside the pools by an earlier race must not be loaded
    const request = { config, model, name: `${this.kind}: ${name}`, captures: this.captures, alone: true };
    const { theater, ...begun } = await whenLoaded(() => client.ask("create", request));
    this.lanes.push(new Lane(name, theater, begun));
    // capturing tensors that are not shown would cost time
    if (!this.captures) await client.ask("focus", { theater, layers: [], heads: null });
  }

  /** @param {Records} message */
  #receive(message) {
    try {
      this.lanes.find((lane) => lane.theater === message.theater)?.receive(message);
    } catch (error) {
      this.handlers.failed(error);
    }
  }

  /** @returns {Promise<Client>} */
  #connect() {
    this.#connected ??= new Promise((done) => {
      const client = new Client({
        connect: () => done(client),
        disconnect: () => this.handlers.lost(""),
        status: () => {},
        reset: () => {},
        closed: (/** @type {import("../core/wire.js").Closed} */ message) =>
          this.lanes.some((lane) => lane.theater === message.theater) && this.handlers.lost(message.reason),
        records: (/** @type {Records} */ message) => this.#receive(message),
      });
      this.#client = client;
    });
    return this.#connected;
  }
}

/**
 * Return the response of `ask`. It is repeated while its model is loading; the server delays each response.
 * @template T
 * @param {() => Promise<T>} ask
 * @returns {Promise<T>}
 */
async function whenLoaded(ask) {
  for (;;)
    try {
      return await ask();
    } catch (error) {
      if (!(error instanceof Refusal && error.code === "loading")) throw error;
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
}
