// State machine of what the page follows; the only place that changes state. Sends no requests.

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
 * - `offline`: the server is unreachable, and nothing was followed yet
 * - `live`: a session is followed
 * - `lost`: a session is followed, and the server is unreachable; its log continues when the server is back
 * - `recording`: a recording of the server is shown; the server may be unreachable meanwhile
 * - `file`: a log without a server: a file's, or that of a deleted recording
 * - `gone`: the run is lost, or there was none; the loaded log stays readable
 *
 * @typedef {"idle" | "connecting" | "offline" | "live" | "lost" | "recording" | "file" | "gone"} SessionState
 */

/**
 * - `connect`: a connection is opened, and nothing is followed
 * - `follow`: a response that starts or continues a session
 * - `replay`: the same with a recording
 * - `drop`: the connection is lost
 * - `lose`: the server does not know the run, or has none
 * - `show`: a file replaces what was shown
 * - `keep`: the shown file has become a recording of the server
 * - `remove`: the shown recording was deleted
 * - `reread`: the log contradicts itself and is reloaded
 *
 * @typedef {"connect" | "follow" | "replay" | "drop" | "lose" | "show" | "keep" | "remove" | "reread"} SessionEvent
 */

/**
 * Next state by state and event. Events that a state does not list leave it unchanged: a recording stays readable while
 * the server is away.
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
 * Connection state shown for each session state; most views treat a file and a recording alike.
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

  /** @param {SessionEvent} event @param {FollowedRun | null} run run to follow from now on */
  #go(event, run) {
    this.#run = run;
    this.#state = TRANSITIONS[this.#state][event] ?? this.#state;
    store.connection.value = SHOWN_AS[this.#state];
  }

  /** Enter the state of a connection that follows nothing yet. */
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
    const same = before?.theater === answer.theater && before.epoch === answer.epoch;
    const run = same ? before : new FollowedRun(answer.theater, answer.epoch);
    batch(() => {
      settings.recording.value = run.isRecording ? run.theater : null;
      // the first run uses the scene of the link
      if (store.own.log.value && before?.theater !== run.theater) settings.scene.value = null;
      if (!run.isRecording) settings.theater.value = run.theater;
      this.problem.value = null;
      this.#go(run.isRecording ? "replay" : "follow", run);
      store.status.value = answer.status;
      store.captureVersion.value += 1; // retries arrays that could not be fetched
      run.focused = null;
      if (same) return void (answer.large && run.turnToWindows()); // the log has become long
      run.begin(answer);
      if (run.isRecording) store.toast(answer.status.error, "error"); // position at which a damaged file ends
    });
  }

  /** Handle the response to a repeated join of the followed run. @param {Joined} answer */
  enterAgain = (answer) => {
    if (answer.theater === this.#run?.theater) this.enter(answer); // otherwise it was left meanwhile
  };

  /** Clear a log that contradicts itself, before it is reloaded. */
  reread() {
    store.own.log.value = store.own.large.value = null;
    this.#go("reread", null);
  }

  /**
   * Mark the run as gone: the loaded log stays readable, and another run can be started.
   * @param {Reason | null} [why]
   */
  lose(why = null) {
    settings.recording.value = null;
    if (store.own.log.value) store.own.log.value.fetchable = false;
    batch(() => {
      this.problem.value = why;
      store.status.value = null;
      this.#go("lose", null);
    });
  }

  /** Handle the deletion of the followed recording: its log stays until another one arrives. */
  remove() {
    this.#go("remove", null);
  }

  /** Show a file's log in place of the current one. @param {import("../core/log.js").TraceLog} log */
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

  /** Show an empty log in place of the current one. @param {Uint8Array} header */
  lay(header) {
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

  /** Clear what is shown if a file had replaced the run. */
  #clear() {
    store.backToLive();
    store.own.log.value = store.own.large.value = null;
    store.own.numRecords.value = 0;
    store.selected.value = store.hovered.value = null;
  }
}
