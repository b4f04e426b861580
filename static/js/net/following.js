// State machine of the followed run. All changes of the state happen here; it sends no requests.

import { batch, signal } from "../../vendor/signals/signals.js";
import { asBytes } from "../core/codec.js";
import { TraceLog } from "../core/log.js";
import { settings } from "../state/settings.js";
import * as store from "../state/store.js";
import { FollowedRun, leaveLog } from "./followed_run.js";

/** @import {Joined} from "../core/wire.js" */
/** @import {Reason} from "./errors.js" */

/**
 * - `idle`: the page has just started
 * - `connecting`: waiting for the server's first response
 * - `offline`: the server is unreachable, and nothing has been followed
 * - `live`: a session is followed
 * - `lost`: a session is followed, and the server is unreachable; its log continues when the server is back
 * - `recording`: a recording of the server is shown; the server may be unreachable
 * - `file`: the log of a file or of a deleted recording is shown
 * - `gone`: the run has ended, or there was none; the loaded log stays readable
 *
 * @typedef {"idle" | "connecting" | "offline" | "live" | "lost" | "recording" | "file" | "gone"} SessionState
 */

/**
 * - `connect`: a connection is opened, and nothing is followed
 * - `follow`: a response starts or continues a session
 * - `replay`: the same with a recording
 * - `drop`: the connection is lost
 * - `lose`: the server does not have the run, or has none
 * - `show`: a file replaces the shown log
 * - `keep`: the shown file has become a recording of the server
 * - `remove`: the shown recording was deleted
 * - `reread`: the log contradicts itself and is reloaded
 *
 * @typedef {"connect" | "follow" | "replay" | "drop" | "lose" | "show" | "keep" | "remove" | "reread"} SessionEvent
 */

/**
 * Next state by state and event. Other events leave a state unchanged: a recording stays readable while
 * the server is unreachable.
 * @type {Record<SessionState, Partial<Record<SessionEvent, SessionState>>>}
 */
export const TRANSITIONS = {
  idle: { connect: "connecting", show: "file" },
  connecting: { follow: "live", replay: "recording", drop: "offline", lose: "gone", show: "file" },
  offline: { follow: "live", replay: "recording", lose: "gone", show: "file" },
  live: { replay: "recording", drop: "lost", lose: "gone", reread: "connecting", show: "file" },
  lost: { follow: "live", replay: "recording", lose: "gone", show: "file" },
  recording: { follow: "live", connect: "connecting", remove: "file", lose: "gone", show: "file" },
  file: { follow: "live", replay: "recording", connect: "connecting", keep: "recording", lose: "gone" },
  gone: { follow: "live", replay: "recording", show: "file" },
};

/**
 * Displayed connection for each session state. Most views do not distinguish a file and a recording.
 * @type {Record<SessionState, import("../state/store.js").Connection>}
 */
export const SHOWN_AS = {
  idle: "connecting",
  connecting: "connecting",
  offline: "lost",
  live: "live",
  lost: "lost",
  recording: "replay",
  file: "replay",
  gone: "gone",
};

export class Following {
  /**
   * Reason that there is no run to follow; null if unknown or if there is one.
   * @type {import("../../vendor/signals/signals.js").Signal<Reason | null>}
   */
  problem = signal(null);
  /** @type {SessionState} */
  #state = "idle";
  /** @type {FollowedRun | null} */
  #run = null;

  get state() {
    return this.#state;
  }

  /** The followed run; null in every state other than `live`, `lost` and `recording`. */
  get run() {
    return this.#run;
  }

  /** @param {SessionEvent} event @param {FollowedRun | null} run next followed run */
  #go(event, run) {
    this.#run = run;
    this.#state = TRANSITIONS[this.#state][event] ?? this.#state;
    store.connection.value = SHOWN_AS[this.#state];
  }

  /** Handle a new connection that follows nothing. */
  connect() {
    batch(() => {
      if (this.#state !== "idle") this.#clear();
      this.#go("connect", null);
    });
  }

  /** Handle a lost connection. */
  drop() {
    this.#go("drop", this.#run);
  }

  /** Handle a join response, which starts a run or continues the followed one. @param {Joined} answer */
  enter(answer) {
    const before = this.#run;
    const isSame = before?.theater === answer.theater && before.epoch === answer.epoch;
    const run = isSame ? before : new FollowedRun(answer.theater, answer.epoch);
    batch(() => {
      settings.recording.value = run.isRecording ? run.theater : null;
      // the first run keeps the scene of the link
      if (store.own.log.value && before?.theater !== run.theater) settings.scene.value = null;
      if (!run.isRecording) settings.theater.value = run.theater;
      this.problem.value = null;
      this.#go(run.isRecording ? "replay" : "follow", run);
      store.status.value = answer.status;
      store.captureVersion.value += 1; // makes views request missing arrays again
      run.focused = null;
      if (isSame) return void (answer.large && run.turnToWindows()); // the log has become long
      run.begin(answer);
      if (run.isRecording) store.toast(answer.status.error, "error"); // says where a damaged file ends
    });
  }

  /** Handle the response to rejoining the followed run. @param {Joined} answer */
  reenter = (answer) => {
    if (answer.theater === this.#run?.theater) this.enter(answer); // otherwise the page follows another run
  };

  /** Clear a log that contradicts itself, before it is reloaded. */
  reread() {
    store.own.log.value = store.own.large.value = null;
    this.#go("reread", null);
  }

  /** Mark the run as gone. The loaded log stays readable; another run can be started. @param {Reason | null} [why] */
  lose(why = null) {
    settings.recording.value = null;
    if (store.own.log.value) store.own.log.value.fetchable = false;
    batch(() => {
      this.problem.value = why;
      store.status.value = null;
      this.#go("lose", null);
    });
  }

  /** Handle the deletion of the followed recording. Its log stays until another one arrives. */
  remove() {
    this.#go("remove", null);
  }

  /** Show a file's log instead of the current one. @param {import("../core/log.js").TraceLog} log */
  show(log) {
    batch(() => {
      leaveLog();
      settings.scene.value = null;
      this.#go("show", null);
      store.status.value = store.own.large.value = null;
      store.own.log.value = log;
      store.own.numRecords.value = log.length;
    });
  }

  /** Show an empty log instead of the current one. @param {Uint8Array} header */
  showEmpty(header) {
    batch(() => {
      store.backToLive();
      settings.recording.value = null;
      this.show(new TraceLog(asBytes(header)));
    });
  }

  /** Mark the shown file as recording `id` of the server. @param {string} id */
  keep(id) {
    settings.recording.value = id;
    this.#go("keep", new FollowedRun(id, 0));
  }

  /** Clear the shown log. */
  #clear() {
    store.backToLive();
    store.own.log.value = store.own.large.value = null;
    store.own.numRecords.value = 0;
    store.selected.value = store.hovered.value = null;
  }
}
