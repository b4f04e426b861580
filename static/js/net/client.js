// The socket: events as promises, reconnection, errors as sentences. See app/PROTOCOL.md.

const ACK_TIMEOUT = 120_000; // ms; a long prefill on a slow machine is still an answer

/** The server said no. `message` is a sentence for a person; `objection`, if there is one, what a guard of the engine said. */
export class Refusal extends Error {
  constructor({ code, message, objection = null }) {
    super(message);
    this.code = code;
    this.objection = objection;
  }
}

/** No answer: the connection went away. */
export class NoAnswer extends Error {}

export class Client {
  /** `handlers`: {records, status, reset, closed, connect, disconnect}. */
  constructor(handlers) {
    this.socket = globalThis.io({
      transports: ["websocket", "polling"],
      tryAllTransports: true,
      reconnectionDelay: 300,
      reconnectionDelayMax: 3000,
    });
    this.socket.on("connect", () => handlers.connect());
    this.socket.on("disconnect", (reason) => handlers.disconnect(reason));
    this.socket.on("connect_error", (error) => handlers.disconnect(error.message));
    this.socket.on("status", (message) => handlers.status(message));
    this.socket.on("reset", (message) => handlers.reset(message));
    this.socket.on("closed", (message) => handlers.closed(message));
    this.socket.on("records", (message, acknowledge) => {
      acknowledge?.(); // not every batch asks for it
      handlers.records(message);
    });
  }

  get connected() {
    return this.socket.connected;
  }

  /** Go away for good. */
  disconnect() {
    this.socket.disconnect();
  }

  /**
   * Send `event` with `body`; the acknowledgement's map. Throws Refusal or NoAnswer. `heard` is given the map at once, before
   * anything that the server sent after it: a promise is told later.
   */
  ask(event, body = {}, { timeout = ACK_TIMEOUT, heard = () => {} } = {}) {
    return new Promise((done, failed) => {
      this.socket.timeout(timeout).emit(event, body, (lost, answer) => {
        if (lost) return failed(new NoAnswer(lost.message));
        if (!answer?.ok) return failed(new Refusal(answer?.error ?? { code: "internal", message: "" }));
        try {
          heard(answer);
        } catch (error) {
          return failed(error);
        }
        done(answer);
      });
    });
  }
}
