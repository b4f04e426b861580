// Socket client: events as promises, reconnection, errors as sentences. See docs/reference/protocol.md.

import { refusalText } from "../i18n/language.js";
import { isPolling } from "../state/store.js";

/** @import {Objection} from "../core/trace.js" */
/** @import {Events, ServerEvents} from "../core/wire.js" */

const ACK_TIMEOUT = 120_000; // ms; long enough for a long prefill on a slow machine
const HANDSHAKE = 6000; // ms after which a transport is assumed to be blocked
const ALL = ["websocket", "polling"];
const POLLING = ["polling"];
const MEMORY_KEY = "kvtheater.polling"; // per tab: another network may let WebSockets through

/**
 * The server refused a request. `message` is a sentence in the page's language where the server has one; `objection`,
 * if present, is a report of an engine guard.
 */
export class Refusal extends Error {
  /** @param {{code: string, message: string, objection?: Objection | null, said?: Record<string, string>}} error */
  constructor({ code, message, objection = null, said }) {
    super(refusalText({ message, said }));
    this.code = code;
    this.objection = objection;
  }
}

/** The connection was lost before a response. */
export class NoAnswer extends Error {}

/**
 * The part of the socket's interface that this page uses.
 *
 * @typedef {{
 *   connected: boolean,
 *   on: (event: string, handler: (...args: any[]) => void) => void,
 * timeout: (ms: number) => {emit: (event: string, body: unknown, told: (lost: Error | null, answer?: any) => void) =>
 * void},
 *   disconnect: () => void,
 *   id?: string,
 *   io: {opts: {transports: string[]}, engine: {transport: {name: string}}},
 * }} Socket `any`: what an event brings is known by its name alone
 */

/**
 * Handlers of server events, by name; other events are ignored.
 *
 * @typedef {{connect: () => void, disconnect: (reason: string) => void, barred?: () => void}
 *   & {[E in keyof ServerEvents]?: (message: ServerEvents[E]) => void}} Handlers
 */

export class Client {
  /** @param {Handlers} handlers */
  constructor({ connect, disconnect, barred = () => {}, ...handlers }) {
    const { io } = /** @type {{io?: any}} */ (globalThis); // its client is a script without types
    /** @type {Socket} */
    const socket = io({
      path: new URL("socket.io", document.baseURI).pathname,
      transports: polledBefore() ? POLLING : ALL,
      tryAllTransports: true,
      timeout: HANDSHAKE,
      reconnectionDelay: 300,
      reconnectionDelayMax: 3000,
    });
    this.socket = socket;
    socket.on("connect", () => {
      isPolling.value = socket.io.engine.transport.name === "polling";
      if (socket.io.opts.transports === POLLING) rememberPolling();
      connect();
    });
    socket.on("disconnect", (reason) => disconnect(reason));
    socket.on("connect_error", (error) => {
      // a proxy that blocks the upgrade to a WebSocket neither accepts nor refuses it
      if (error.message === "timeout") socket.io.opts.transports = socket.io.opts.transports === ALL ? POLLING : ALL;
      disconnect(error.message);
      if (isBarred(error)) barred();
    });
    for (const [event, handle] of Object.entries(handlers))
      this.socket.on(event, (message, acknowledge) => {
        acknowledge?.(); // sent for `records`, not for every batch
        handle(message);
      });
  }

  get connected() {
    return this.socket.connected;
  }

  /** Id of the connection: another one after each connect. */
  get id() {
    return this.socket.id;
  }

  /** Close the connection for good. */
  disconnect() {
    this.socket.disconnect();
  }

  /**
   * Send `event` with `body` and return the acknowledgement. Throws Refusal or NoAnswer. `onAnswer` gets the
   * acknowledgement synchronously, before later messages of the server; a promise resolves later.
   * @template {keyof Events} E
   * @param {E} event
   * @param {Events[E]["request"]} body
   * @param {{timeout?: number, onAnswer?: (answer: Events[E]["answer"]) => void}} [options] `timeout` in ms
   * @returns {Promise<Events[E]["answer"]>}
   */
  ask(event, body, { timeout = ACK_TIMEOUT, onAnswer = () => {} } = {}) {
    return new Promise((done, failed) => {
      this.socket.timeout(timeout).emit(event, body, (lost, answer) => {
        if (lost) return failed(new NoAnswer(lost.message));
        if (!answer?.ok) return failed(new Refusal(answer?.error ?? { code: "internal", message: "" }));
        try {
          onAnswer(answer);
        } catch (error) {
          return failed(error);
        }
        done(answer);
      });
    });
  }
}

/**
 * Return whether the server responds but knows neither a token nor a pass of this browser. Only polling can read that
 * response.
 * @param {Error & {context?: {responseText?: string}}} error
 */
const isBarred = ({ context }) => Boolean(context?.responseText?.includes('"token_required"'));

function polledBefore() {
  try {
    return globalThis.sessionStorage?.getItem(MEMORY_KEY) === "yes";
  } catch {
    return false; // storage is refused in some private windows
  }
}

function rememberPolling() {
  try {
    globalThis.sessionStorage?.setItem(MEMORY_KEY, "yes");
  } catch {
    // the next page tries a WebSocket first
  }
}
