// Socket client: requests as promises, reconnection, and errors with a sentence. See docs/reference/protocol.md.

import { refusalText } from "../i18n/language.js";
import { isPolling } from "../state/store.js";

/** @import {Objection} from "../core/trace.js" */
/** @import {Events, ServerEvents} from "../core/wire.js" */

const ACK_TIMEOUT = 120_000; // ms; long enough for a long prefill on a slow machine
const HANDSHAKE_MS = 6000; // after which a transport is assumed to be blocked
const ALL = ["websocket", "polling"];
const POLLING = ["polling"];
const MEMORY_KEY = "kvtheater.polling"; // per tab, as another network may allow WebSockets

/**
 * Error for a request that the server refused. `message` is in the page's language if the server has it; `objection`,
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

/** Error for a connection that was lost before the response. */
export class NoAnswer extends Error {}

/**
 * Part of the socket's interface that this page uses. `Client` checks the types of messages by their event.
 *
 * @typedef {(lost: Error | null, answer?: any) => void} AnswerHandler
 * @typedef {{
 *   connected: boolean,
 *   on: (event: string, handler: (...args: any[]) => void) => void,
 *   timeout: (ms: number) => {emit: (event: string, body: unknown, onAnswer: AnswerHandler) => void},
 *   disconnect: () => void,
 *   id?: string,
 *   io: {opts: {transports: string[]}, engine: {transport: {name: string}}},
 * }} Socket
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
    const { io } = /** @type {{io?: any}} */ (globalThis); // the socket.io client is a script without types
    /** @type {Socket} */
    const socket = io({
      path: new URL("socket.io", document.baseURI).pathname,
      transports: hasPolled() ? POLLING : ALL,
      tryAllTransports: true,
      timeout: HANDSHAKE_MS,
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
        acknowledge?.(); // the server requests this for some messages
        handle(message);
      });
  }

  get connected() {
    return this.socket.connected;
  }

  /** Id of the connection, which changes with each connect. */
  get id() {
    return this.socket.id;
  }

  /** Close the connection permanently. */
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
 * Return whether the server accepts neither a token nor a pass of this browser. Only polling can read that
 * response.
 * @param {Error & {context?: {responseText?: string}}} error
 */
const isBarred = ({ context }) => Boolean(context?.responseText?.includes('"token_required"'));

function hasPolled() {
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
