// Session of the page: creates, joins, switches and leaves the followed run, or shows a file instead.
// following.js is its state machine, link.js the connection, and commands.js has the commands.

import { batch, signal } from "../../vendor/signals/signals.js";
import { t } from "../i18n/words.js";
import { CLASS_HANDLERS } from "../state/classroom.js";
import { wantedConfig, wantedModel } from "../state/run_settings.js";
import { settings } from "../state/settings.js";
import * as store from "../state/store.js";
import { isEmbedded, isSite } from "../state/without_server.js";
import { NoAnswer, Refusal } from "./client.js";
import { BARRED, closedReason, isUnknown, NOTHING_HERE, refusedReason, showFailure } from "./errors.js";
import { answeredFacts, askForFacts, firstRecording, forgetModel, receiveModel } from "./facts.js";
import { isRecording } from "./followed_run.js";
import { Following } from "./following.js";
import { Link } from "./link.js";
import { cancelLoading, showEmbedded, showOfSite, startOfSite } from "./site.js";
import { fetchLog, logOf } from "./trace_file.js";

/** @import {Joined} from "../core/wire.js" */

export class Session {
  #following = new Following();
  /** @type {Link | null} */
  #link = null;

  get state() {
    return this.#following.state;
  }

  /** The followed run; null in every state other than `live`, `lost` and `recording`. */
  get run() {
    return this.#following.run;
  }

  /** Reason that there is no run to follow, as a signal; null if unknown or if there is one. */
  get problem() {
    return this.#following.problem;
  }

  /** Whether a requested new run has not started, as a signal; the server may be unreachable. */
  isStarting = signal(false);

  /** The connection; null after a file was opened, until the next connect. */
  get client() {
    return this.#link?.client ?? null;
  }

  /** Start with the embedded file or that of the address, else the run of the address, else a new one. */
  async start() {
    if (isEmbedded) return showEmbedded((found) => this.#show(found));
    if (isSite) return startOfSite((found) => this.#show(found));
    const recording = settings.recording.value;
    if (!recording || isRecording(recording)) return this.#connect();
    const found = await fetchLog(recording);
    if (found && this.state === "idle") this.#show(found); // otherwise another one has been opened
  }

  // ── Server messages ────────────────────────────────────────────────────────────────────────────────────────────────

  #connect() {
    this.#following.connect();
    askForFacts();
    const link = new Link(
      {
        connect: () => this.#enter(link),
        disconnect: () => (forgetModel(), this.#following.drop()),
        barred: () => this.problem.peek()?.key === BARRED || this.#following.lose({ key: BARRED }),
        model: receiveModel,
        ...CLASS_HANDLERS,
        status: (message) => this.run?.onStatus(message),
        reset: (message) => this.run?.onReset(message),
        large: (message) => this.run?.onLarge(message, (known) => link.rejoin(known, this.#following.reenter)),
        closed: (message) => this.#onClosed(message),
        records: (message) => this.run?.onRecords(message) === false && this.#reread(link),
      },
      // the page remains a viewer of the live run while a recording is shown
      (theater) =>
        theater === this.run?.theater || Boolean(this.run?.isRecording && theater === settings.theater.value),
    );
    this.#link = link;
  }

  /**
   * Rejoin the followed run with the records already loaded, or create a session if there is none. Called on every
   * connect.
   * @param {Link} link
   */
  async #enter(link) {
    const own = this.run?.theater ?? settings.recording.value ?? settings.theater.value;
    const target = settings.class.peek() ? await (await import("./classroom.js")).runOfClass(link.client, own) : own;
    if (this.problem.peek()?.key === BARRED) this.#following.lose(); // the token or pass is valid again
    // the loaded log stays readable; the stage of a class may be empty
    if (this.state === "file" || this.state === "gone" || target === "" || link.isClosed) return;
    const known =
      this.run?.theater === target ? { from: store.own.numRecords.value, epoch: this.run?.epoch } : { from: 0 };
    const joining = target ? link.join(target, known, (answer) => this.#following.enter(answer)) : this.#create(link);
    const { request } = link;
    try {
      await joining;
    } catch (error) {
      if (link.isClosed || link.request !== request) return; // replaced by a file or another run
      if (store.serverModel.peek()?.state === "failed") return; // the page reconnects to its successor
      if (!target && (await this.#withoutModel())) await this.openFirst();
      else if (isUnknown(error)) this.#following.lose();
      else if (error instanceof Refusal && !store.own.log.value) this.#following.lose(refusedReason(error));
      else showFailure(error);
    }
  }

  /** @param {import("../core/wire.js").Closed} message */
  #onClosed(message) {
    if (message.theater !== this.run?.theater) return;
    if (!this.run.isRecording) this.#following.lose(closedReason(message));
    else if (message.cause === "deleted") this.#removed(); // other recordings stay readable and are rejoined
  }

  /** Reload the log from its beginning. @param {Link} link */
  #reread(link) {
    this.#following.reread();
    this.#enter(link);
  }

  // ── Another run ────────────────────────────────────────────────────────────────────────────────────────────────────

  /** @param {Link} link @param {Record<string, unknown>} [config] */
  async #create(link, config) {
    if (settings.model.peek()) await answeredFacts(); // the request depends on the model's facts
    const currentSettings = () => ({ config: config ?? wantedConfig(), model: wantedModel() });
    await link.create(currentSettings, (answer) => {
      const previous = this.run;
      batch(() => {
        store.backToLive();
        this.#following.enter(answer);
      });
      if (previous) link.leave(previous.theater);
    });
  }

  /**
   * Create and follow a new run with `config` or the controls' settings, instead of the current one.
   * @param {Record<string, unknown>} [config]
   * @returns {Promise<boolean>} whether there is one now
   */
  async startNewRun(config) {
    const link = this.#link;
    if (!link) return false;
    return this.#attempt(() => store.whileBusy(() => this.#create(link, config)));
  }

  /**
   * Create and follow a new run with the controls' settings instead of a lost one, as soon as the server is reachable.
   * @returns {Promise<boolean>} whether there is one now
   */
  async startAgain() {
    const link = this.#link;
    if (!link || this.isStarting.value) return false;
    this.isStarting.value = true;
    const create = () => store.whileBusy(() => this.#create(link));
    await this.#attempt(() => link.askPersistently(create, () => this.state === "gone"));
    this.isStarting.value = false;
    return this.state === "live";
  }

  /**
   * Follow another session or recording of this server, at record `step` (null: its newest).
   * @param {string} theater
   * @param {number | null} [step]
   * @returns {Promise<boolean>} whether it could be joined
   */
  async watch(theater, step = null) {
    if (isSite) return showOfSite((found) => this.#show(found), theater, step);
    if (theater !== this.run?.theater) return this.#attempt(() => this.#follow(theater, step));
    this.#link?.keep(theater);
    return true;
  }

  /** Return from a recording to the live run followed before, or to a new one. */
  async toLive() {
    const [client, before] = [this.client, settings.theater.value];
    settings.recording.value = null;
    if (!client) return this.#connect();
    try {
      if (before) return await this.#follow(before, null);
    } catch (error) {
      if (!isUnknown(error)) return this.reportFailure(error, client);
    }
    await this.startNewRun();
  }

  /**
   * Join `theater` instead of the followed run. The page remains a viewer of a live run while a recording is shown, as
   * it returns to that run.
   * @param {string} theater
   * @param {number | null} step
   */
  async #follow(theater, step) {
    const link = this.#link;
    if (!link) {
      settings.recording.value = isRecording(theater) ? theater : null;
      if (!isRecording(theater)) settings.theater.value = theater;
      this.#connect();
      settings.step.value = step;
      return;
    }
    /** @param {Joined} answer */
    const adopt = (answer) => {
      const previous = this.run;
      batch(() => {
        store.backToLive();
        this.#following.enter(answer);
        settings.step.value = step;
      });
      if (previous && previous.theater !== theater && (previous.isRecording || !isRecording(theater)))
        link.leave(previous.theater);
    };
    await store.whileBusy(() => link.join(theater, { from: 0 }, adopt));
  }

  /** @param {() => Promise<unknown>} action request that the server may refuse; the error is displayed */
  async #attempt(action) {
    const { client } = this;
    try {
      await action();
      return true;
    } catch (error) {
      this.reportFailure(error, client);
      return false;
    }
  }

  /**
   * Display why a request on `client` failed, unless the page closed that connection itself.
   * @param {unknown} error
   * @param {Session["client"]} client
   */
  reportFailure(error, client) {
    if (!(error instanceof NoAnswer) || client === this.client) showFailure(error);
  }

  // ── Without a live run ─────────────────────────────────────────────────────────────────────────────────────────────

  /** Return whether this server only shows recordings. */
  async #withoutModel() {
    await answeredFacts();
    return store.modelFacts.value?.live === false;
  }

  /** Show a recording if there is no run: one named on the command line, else a bundled one. */
  async openFirst() {
    const link = this.#link;
    await answeredFacts();
    const { attached } = store.modelFacts.peek() ?? {};
    if (!attached) settings.detail.value = "library";
    const first = attached ?? (await firstRecording());
    if (this.#link !== link) return; // a file has been opened
    if (first) await this.watch(first);
    else this.#following.lose({ key: NOTHING_HERE });
  }

  /** Handle the deletion of the followed recording. */
  async #removed() {
    this.#following.remove();
    store.toast(t("library.gone"));
    if (await this.#withoutModel()) await this.openFirst();
    else await this.toLive();
  }

  /** Show the trace in `buffer`, at its end. Throws TraceFormatError. @param {ArrayBuffer | Uint8Array} buffer */
  open(buffer) {
    batch(() => (this.#show(logOf(buffer)), store.backToLive()));
  }

  /** Show an empty log, which a recorded lesson fills. @param {Uint8Array} header */
  showEmpty(header) {
    cancelLoading();
    this.#following.showEmpty(header);
  }

  /** @param {ReturnType<typeof logOf>} found */
  #show({ log, damage }) {
    this.#link?.close(); // no more records of the live run
    this.#link = null;
    this.#following.show(log);
    store.toast(damage, "error");
  }

  /** Mark the shown file as recording `id` of the server. @param {string} id */
  keep(id) {
    this.#following.keep(id);
  }
}

/** Session of this page. */
export const session = new Session();
