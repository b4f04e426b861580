// Session of the page: creates, joins, switches and leaves the run it follows, or shows a file in its place.
// following.js defines its states and their machine, link.js the connection and commands.js the commands.

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
  #now = new Following();
  /** @type {Link | null} */
  #link = null;

  get state() {
    return this.#now.state;
  }

  /** The followed run; null in every state other than `live`, `lost` and `recording`. */
  get run() {
    return this.#now.run;
  }

  /** Reason that there is no run to follow, as a signal; null if unknown or if there is one. */
  get problem() {
    return this.#now.problem;
  }

  /** Whether a new run is requested and has not started, as a signal: the server may be away. */
  beginning = signal(false);

  /** The connection; null after a file was opened, until the next connect. */
  get client() {
    return this.#link?.client ?? null;
  }

  /** Start with the file that the page embeds or the address names, else the run of the address, else a new one. */
  async start() {
    if (isEmbedded) return showEmbedded((found) => this.#show(found));
    if (isSite) return startOfSite((found) => this.#show(found));
    const wanted = settings.recording.value;
    if (!wanted || isRecording(wanted)) return this.#connect();
    const found = await fetchLog(wanted);
    if (found && this.state === "idle") this.#show(found); // otherwise another one was opened meanwhile
  }

  // ── Server messages ────────────────────────────────────────────────────────────────────────────────────────────────

  #connect() {
    this.#now.connect();
    askForFacts();
    const link = new Link(
      {
        connect: () => this.#enter(link),
        disconnect: () => (forgetModel(), this.#now.drop()),
        barred: () => this.problem.peek()?.key === BARRED || this.#now.lose({ key: BARRED }),
        model: receiveModel,
        ...CLASS_HANDLERS,
        status: (message) => this.run?.onStatus(message),
        reset: (message) => this.run?.onReset(message),
        large: (message) => this.run?.onLarge(message, (known) => link.joinAgain(known, this.#now.enterAgain)),
        closed: (message) => this.#onClosed(message),
        records: (message) => this.run?.onRecords(message) === false && this.#reread(link),
      },
      // the live run keeps its viewer while a recording is shown
      (theater) =>
        theater === this.run?.theater || Boolean(this.run?.isRecording && theater === settings.theater.value),
    );
    this.#link = link;
  }

  /**
   * Rejoin the followed run with the records already loaded, or create a session if there is none; on every connect.
   * @param {Link} link
   */
  async #enter(link) {
    const own = this.run?.theater ?? settings.recording.value ?? settings.theater.value;
    const wanted = settings.class.peek() ? await (await import("./classroom.js")).runOfClass(link.client, own) : own;
    if (this.problem.peek()?.key === BARRED) this.#now.lose(); // its token or pass is valid again
    // the loaded log stays readable; a class may have nothing on stage yet
    if (this.state === "file" || this.state === "gone" || wanted === "" || link.isClosed) return;
    const known =
      this.run?.theater === wanted ? { from: store.own.numRecords.value, epoch: this.run?.epoch } : { from: 0 };
    const joining = wanted ? link.join(wanted, known, (answer) => this.#now.enter(answer)) : this.#create(link);
    const { wish } = link;
    try {
      await joining;
    } catch (error) {
      if (link.isClosed || link.wish !== wish) return; // replaced by a file or another run
      if (store.serverModel.peek()?.state === "failed") return; // the server exits; its successor is asked
      if (!wanted && (await this.#withoutModel())) await this.openFirst();
      else if (isUnknown(error)) this.#now.lose();
      else if (error instanceof Refusal && !store.own.log.value) this.#now.lose(refusedReason(error));
      else showFailure(error);
    }
  }

  /** @param {import("../core/wire.js").Closed} message */
  #onClosed(message) {
    if (message.theater !== this.run?.theater) return;
    if (!this.run.isRecording) this.#now.lose(closedReason(message));
    else if (message.cause === "deleted") this.#removed(); // otherwise it stays readable and is rejoined
  }

  /** Reload the log from its beginning. @param {Link} link */
  #reread(link) {
    this.#now.reread();
    this.#enter(link);
  }

  // ── Another run ────────────────────────────────────────────────────────────────────────────────────────────────────

  /** @param {Link} link @param {Record<string, unknown>} [config] */
  async #create(link, config) {
    if (settings.model.peek()) await answeredFacts(); // the request depends on it
    const wanted = () => ({ config: config ?? wantedConfig(), model: wantedModel() });
    await link.create(wanted, (answer) => {
      const left = this.run;
      batch(() => {
        store.backToLive();
        this.#now.enter(answer);
      });
      if (left) link.leave(left.theater);
    });
  }

  /**
   * Create and follow a new run with `config` or the controls' settings, replacing the current one.
   * @param {Record<string, unknown>} [config]
   * @returns {Promise<boolean>} whether there is one now
   */
  async startNewRun(config) {
    const link = this.#link;
    if (!link) return false;
    return this.#attempt(() => store.whileBusy(() => this.#create(link, config)));
  }

  /**
   * Create and follow a new run with the controls' settings in place of a lost one, as soon as the server is reachable.
   * @returns {Promise<boolean>} whether there is one now
   */
  async startAgain() {
    const link = this.#link;
    if (!link || this.beginning.value) return false;
    this.beginning.value = true;
    const create = () => store.whileBusy(() => this.#create(link));
    await this.#attempt(() => link.insist(create, () => this.state === "gone"));
    this.beginning.value = false;
    return this.state === "live";
  }

  /**
   * Follow another session or recording of this server, from record `step` (null: its newest).
   * @param {string} wanted
   * @param {number | null} [step]
   * @returns {Promise<boolean>} whether it could be joined
   */
  async watch(wanted, step = null) {
    if (isSite) return showOfSite((found) => this.#show(found), wanted, step);
    if (wanted !== this.run?.theater) return this.#attempt(() => this.#follow(wanted, step));
    this.#link?.stay(wanted);
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
      if (!isUnknown(error)) return this.complain(error, client);
    }
    await this.startNewRun();
  }

  /**
   * Join `wanted` in place of the followed run. A live run keeps its viewer while a recording is shown, since the page
   * returns to it.
   * @param {string} wanted
   * @param {number | null} step
   */
  async #follow(wanted, step) {
    const link = this.#link;
    if (!link) {
      settings.recording.value = isRecording(wanted) ? wanted : null;
      if (!isRecording(wanted)) settings.theater.value = wanted;
      this.#connect();
      settings.step.value = step;
      return;
    }
    /** @param {Joined} answer */
    const adopt = (answer) => {
      const left = this.run;
      batch(() => {
        store.backToLive();
        this.#now.enter(answer);
        settings.step.value = step;
      });
      if (left && left.theater !== wanted && (left.isRecording || !isRecording(wanted))) link.leave(left.theater);
    };
    await store.whileBusy(() => link.join(wanted, { from: 0 }, adopt));
  }

  /** @param {() => Promise<unknown>} action request that the server may refuse; the refusal is shown */
  async #attempt(action) {
    const { client } = this;
    try {
      await action();
      return true;
    } catch (error) {
      this.complain(error, client);
      return false;
    }
  }

  /**
   * Show why a request on `client` failed, unless the page closed that connection itself.
   * @param {unknown} error
   * @param {Session["client"]} client
   */
  complain(error, client) {
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
    if (this.#link !== link) return; // a file was opened meanwhile
    if (first) await this.watch(first);
    else this.#now.lose({ key: NOTHING_HERE });
  }

  /** Handle the deletion of the followed recording. */
  async #removed() {
    this.#now.remove();
    store.toast(t("library.gone"));
    if (await this.#withoutModel()) await this.openFirst();
    else await this.toLive();
  }

  /** Show the trace in `buffer`, at its end. Throws TraceFormatError. @param {ArrayBuffer | Uint8Array} buffer */
  open(buffer) {
    batch(() => (this.#show(logOf(buffer)), store.backToLive()));
  }

  /** Show an empty log, to be filled by a recorded lesson. @param {Uint8Array} header */
  lay(header) {
    cancelLoading();
    this.#now.lay(header);
  }

  /** @param {ReturnType<typeof logOf>} found */
  #show({ log, damage }) {
    this.#link?.close(); // further records of the live run do not belong to this log
    this.#link = null;
    this.#now.show(log);
    store.toast(damage, "error");
  }

  /** Mark the shown file as recording `id` of the server. @param {string} id */
  keep(id) {
    this.#now.keep(id);
  }
}

/** Session of this page. */
export const session = new Session();
