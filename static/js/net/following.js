// What the page follows now, and in which state that is: the one place where states change. Nothing is asked here.

import { batch, signal } from "../../vendor/signals/signals.js";
import { asBytes } from "../core/codec.js";
import { TraceLog } from "../core/log.js";
import { settings } from "../state/settings.js";
import * as store from "../state/store.js";
import { FollowedRun, leaveLog } from "./followed_run.js";
import { SHOWN_AS, TRANSITIONS } from "./states.js";

export class Following {
  /**
   * Why there is no run to follow; null when it is not known or there is one.
   *
   * @type {import("../../vendor/signals/signals.js").Signal<import("./trouble.js").Trouble | null>}
   */
  trouble = signal(null);
  /** @type {import("./states.js").SessionState} */
  #state = "idle";
  /** @type {FollowedRun | null} */
  #run = null;

  get state() {
    return this.#state;
  }

  /** The run that is followed; null in every other state than `live`, `lost` and `recording`. */
  get run() {
    return this.#run;
  }

  /**
   * @param {import("./states.js").SessionEvent} event
   * @param {FollowedRun | null} run that is followed from now on
   */
  #go(event, run) {
    this.#run = run;
    this.#state = TRANSITIONS[this.#state][event] ?? this.#state;
    store.connection.value = SHOWN_AS[this.#state];
  }

  /** A connection is made, and nothing is followed yet. */
  connect() {
    batch(() => {
      if (this.#state !== "idle") this.#clear();
      this.#go("connect", null);
    });
  }

  /** The connection went away. */
  drop() {
    this.#go("drop", this.#run);
  }

  /**
   * The server's answer: it begins a run, or goes on with the one that is followed.
   *
   * @param {import("../core/wire.js").Joined} answer
   */
  enter(answer) {
    const before = this.#run;
    const same = before?.theater === answer.theater && before.epoch === answer.epoch;
    const run = same ? before : new FollowedRun(answer.theater, answer.epoch);
    batch(() => {
      settings.recording.value = run.isRecording ? run.theater : null;
      if (store.own.log.value && before?.theater !== run.theater) settings.scene.value = null; // the first is as linked
      if (!run.isRecording) settings.theater.value = run.theater;
      this.trouble.value = null;
      this.#go(run.isRecording ? "replay" : "follow", run);
      store.status.value = answer.status;
      store.captureVersion.value += 1; // arrays that could not be fetched are asked for again
      run.focused = null;
      if (same) return void (answer.large && run.turnToWindows()); // it has become long
      run.begin(answer);
      if (run.isRecording) store.toast(answer.status.error, "error"); // where a damaged file ends
    });
  }

  /**
   * The server's answer to one who follows a run and joined it once more.
   *
   * @param {import("../core/wire.js").Joined} answer
   */
  enterAgain = (answer) => {
    if (answer.theater === this.#run?.theater) this.enter(answer); // else it was left meanwhile
  };

  /** The log contradicts itself, and is to be read again from its beginning. */
  reread() {
    store.own.log.value = store.own.large.value = null;
    this.#go("reread", null);
  }

  /**
   * The run is gone: what is here can be read on, and another one can be started.
   *
   * @param {import("./trouble.js").Trouble | null} [why]
   */
  lose(why = null) {
    settings.recording.value = null;
    if (store.own.log.value) store.own.log.value.fetchable = false;
    batch(() => {
      this.trouble.value = why;
      store.status.value = null;
      this.#go("lose", null);
    });
  }

  /** The recording that is followed was deleted: its log stays until another one comes. */
  remove() {
    this.#go("remove", null);
  }

  /**
   * A file's log takes the place of whatever was shown.
   *
   * @param {import("../core/log.js").TraceLog} log
   */
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

  /**
   * An empty log takes the place of whatever was shown.
   *
   * @param {Uint8Array} header
   */
  lay(header) {
    batch(() => {
      store.backToLive();
      settings.recording.value = null;
      this.show(new TraceLog(asBytes(header)));
    });
  }

  /**
   * The log on show, which came from a file, is the recording `id` of the server now.
   *
   * @param {string} id
   */
  keep(id) {
    settings.recording.value = id;
    this.#go("keep", new FollowedRun(id, 0));
  }

  /** Show nothing, where a file had taken the run's place. */
  #clear() {
    store.backToLive();
    store.own.log.value = store.own.large.value = null;
    store.own.numRecords.value = 0;
    store.selected.value = store.hovered.value = null;
  }
}
