// The theaters of lanes: one for each, on a connection of their own.

import { Client, Refusal } from "../net/client.js";
import { Lane } from "./lane.js";

/** @typedef {import("./lockstep.js").Wish} Wish */

const AGAIN = 500; // ms after which a model that is on its way is asked for again

/** Why what was under way cannot go on; without a message the connection is gone. */
export const lost = (message = "") => new Refusal({ code: "lost", message });

export class Theaters {
  /** @type {Lane[]} */
  lanes = [];
  /** @type {Client | null} */
  #client = null;
  /** @type {Promise<Client> | null} what it is, or while connecting will be */
  #connected = null;

  /**
   * `lost(reason)`: the connection ("") or a theater is gone; `failed(error)`: what came does not follow from the log.
   * @param {string} kind what they are called after
   * @param {string[]} names of the lanes
   * @param {boolean} captures whether the lanes' arrays are wanted
   * @param {{lost: (reason: string) => void, failed: (error: unknown) => void}} told
   */
  constructor(kind, names, captures, told) {
    this.kind = kind;
    this.names = names;
    this.captures = captures;
    this.told = told;
  }

  /**
   * Every lane with what the wish asks for waiting in it; their logs.
   * @param {Wish} wish
   */
  async setUp({ configs, prompts, sampling, models = {} }) {
    const client = await this.#connect();
    for (const name of this.names) await this.#open(client, name, configs[name], models[name] ?? null);
    for (const lane of this.lanes) {
      const asked = { theater: lane.theater, prompts: prompts.map((text) => ({ text })), sampling };
      const { num_records } = await client.ask("submit", asked);
      await lane.arrival(num_records);
    }
    return this.lanes.map((lane) => lane.log);
  }

  /**
   * Have a lane take a step; how many records its log has then. Throws Refusal when it cannot.
   * @param {Lane} lane
   */
  async step(lane) {
    if (!this.#client) throw lost();
    return (await this.#client.ask("step", { theater: lane.theater, expect: lane.log.length })).num_records;
  }

  /** Give them back. */
  leave() {
    for (const lane of this.lanes) lane.lose(lost());
    this.lanes = [];
    this.#connected = null;
    this.#client?.disconnect();
    this.#client = null;
  }

  /**
   * The lane `name` with an empty log: the theater that is there under the new settings, or a new one.
   * @param {Client} client
   * @param {string} name
   * @param {Record<string, unknown>} config
   * @param {string | null} model null: the one that it has, a new one the server's first
   */
  async #open(client, name, config, model) {
    const known = this.lanes.find((lane) => lane.name === name);
    if (known)
      return known.begin(await whenThere(() => client.ask("configure", { theater: known.theater, config, model })));
    // what the server keeps outside its pools would come back from an earlier race: each begins with nothing
    const about = { config, model, name: `${this.kind}: ${name}`, captures: this.captures, alone: true };
    const { theater, ...begun } = await whenThere(() => client.ask("create", about));
    this.lanes.push(new Lane(name, theater, begun));
    // where no one looks at its tensors, they would only cost time
    if (!this.captures) await client.ask("focus", { theater, layers: [], heads: null });
  }

  /** @param {import("../core/wire.js").Records} message */
  #receive(message) {
    try {
      this.lanes.find((lane) => lane.theater === message.theater)?.receive(message);
    } catch (error) {
      this.told.failed(error);
    }
  }

  /** @returns {Promise<Client>} */
  #connect() {
    this.#connected ??= new Promise((done) => {
      const client = new Client({
        connect: () => done(client),
        disconnect: () => this.told.lost(""),
        status: () => {},
        reset: () => {},
        closed: (/** @type {import("../core/wire.js").Closed} */ message) =>
          this.lanes.some((lane) => lane.theater === message.theater) && this.told.lost(message.reason),
        records: (/** @type {import("../core/wire.js").Records} */ message) => this.#receive(message),
      });
      this.#client = client;
    });
    return this.#connected;
  }
}

/**
 * The answer of `ask`, which is asked again as long as its model is on its way: the server waits a while each time.
 *
 * @template T
 * @param {() => Promise<T>} ask
 * @returns {Promise<T>}
 */
async function whenThere(ask) {
  for (;;)
    try {
      return await ask();
    } catch (error) {
      if (!(error instanceof Refusal && error.code === "loading")) throw error;
      await new Promise((resolve) => setTimeout(resolve, AGAIN));
    }
}
