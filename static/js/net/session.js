// The page's session: which run it follows. Making or joining one, going to another, losing it, a file in its place.
// states.js has its states, following.js what is followed, link.js the connection, commands.js what a run is asked.

import { batch, signal } from "../../vendor/signals/signals.js";
import { heardOfClass } from "../state/classroom.js";
import { isEmbedded } from "../state/embedded.js";
import { wantedConfig, wantedModel } from "../state/run_settings.js";
import { settings } from "../state/settings.js";
import { isSite } from "../state/site.js";
import * as store from "../state/store.js";
import { t } from "../tell/words.js";
import { NoAnswer, Refusal } from "./client.js";
import { answeredFacts, askForFacts, firstRecording, forgetModel, heardModel } from "./facts.js";
import { isRecording } from "./followed_run.js";
import { Following } from "./following.js";
import { Link } from "./link.js";
import { forgetAsked, showEmbedded, showOfSite, startOfSite } from "./site.js";
import { fetchLog, logOf } from "./trace_file.js";
import { BARRED, closedBecause, complain, isUnknown, NOTHING_HERE, refusedBy } from "./trouble.js";

/** @typedef {import("../core/wire.js").Joined} Joined */

export class Session {
  #now = new Following();
  /** @type {Link | null} */
  #link = null;

  get state() {
    return this.#now.state;
  }

  /** The run that is followed; null in every other state than `live`, `lost` and `recording`. */
  get run() {
    return this.#now.run;
  }

  /** Why there is no run to follow, as a signal; null when it is not known or there is one. */
  get trouble() {
    return this.#now.trouble;
  }

  /** Whether a new run was asked for that has not begun, as a signal: the server may be away. */
  beginning = signal(false);

  /** The connection; null where a file was opened and none was made since. */
  get client() {
    return this.#link?.client ?? null;
  }

  /** Begin: the file that is in the page or that the address names, else the run of the address, else a new one. */
  async start() {
    if (isEmbedded) return showEmbedded((found) => this.#show(found));
    if (isSite) return startOfSite((found) => this.#show(found));
    const wanted = settings.recording.value;
    if (!wanted || isRecording(wanted)) return this.#connect();
    const found = await fetchLog(wanted);
    if (found && this.state === "idle") this.#show(found); // else another one was opened meanwhile
  }

  // ── What the server says ───────────────────────────────────────────────────────────────────────────────────────────

  #connect() {
    this.#now.connect();
    askForFacts();
    const link = new Link(
      {
        connect: () => this.#enter(link),
        disconnect: () => (forgetModel(), this.#now.drop()),
        barred: () => this.state === "gone" || this.#now.lose({ key: BARRED }),
        model: heardModel,
        ...heardOfClass,
        status: (message) => this.run?.heardStatus(message),
        reset: (message) => this.run?.heardReset(message),
        large: (message) => this.run?.heardLarge(message, (known) => link.joinAgain(known, this.#now.enterAgain)),
        closed: (message) => this.#heardClosed(message),
        records: (message) => this.run?.heardRecords(message) === false && this.#reread(link),
      },
      // the live run keeps its viewer while a recording is looked at
      (theater) =>
        theater === this.run?.theater || Boolean(this.run?.isRecording && theater === settings.theater.value),
    );
    this.#link = link;
  }

  /**
   * After every connect: join what was followed, with what is already here; without anything to follow make a theater.
   *
   * @param {Link} link
   */
  async #enter(link) {
    const own = this.run?.theater ?? settings.recording.value ?? settings.theater.value;
    const wanted = settings.class.peek() ? await (await import("./classroom.js")).runOfClass(link.client, own) : own;
    if (this.trouble.peek()?.key === BARRED) this.#now.lose(); // it is known again
    // what is here can be read on; a class has nothing on stage yet
    if (this.state === "file" || this.state === "gone" || wanted === "" || link.isClosed) return;
    const known =
      this.run?.theater === wanted ? { from: store.own.numRecords.value, epoch: this.run?.epoch } : { from: 0 };
    const asked = wanted ? link.join(wanted, known, (answer) => this.#now.enter(answer)) : this.#create(link);
    const { wish } = link;
    try {
      await asked;
    } catch (error) {
      if (link.isClosed || link.wish !== wish) return; // a file has taken its place, or another run
      if (store.serverModel.peek()?.state === "failed") return; // the server ends: one that comes back is asked
      if (!wanted && (await this.#withoutModel())) await this.openFirst();
      else if (isUnknown(error)) this.#now.lose();
      else if (error instanceof Refusal && !store.own.log.value) this.#now.lose(refusedBy(error));
      else complain(error);
    }
  }

  /** @param {import("../core/wire.js").Closed} message */
  #heardClosed(message) {
    if (message.theater !== this.run?.theater) return;
    if (!this.run.isRecording) this.#now.lose(closedBecause(message));
    else if (message.cause === "deleted") this.#removed(); // else it is read on, and joined again
  }

  /** Read the log again from its beginning. @param {Link} link */
  #reread(link) {
    this.#now.reread();
    this.#enter(link);
  }

  // ── Another run ────────────────────────────────────────────────────────────────────────────────────────────────────

  /** @param {Link} link @param {Record<string, unknown>} [config] */
  async #create(link, config) {
    if (settings.model.peek()) await answeredFacts(); // what is asked for follows from it
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
   * Follow a new run, of `config` or of what the controls show, in place of the one that is followed or gone.
   *
   * @param {Record<string, unknown>} [config]
   * @returns {Promise<boolean>} whether there is one now
   */
  async startAnew(config) {
    const link = this.#link;
    if (!link) return false;
    return this.#attempt(() => store.whileBusy(() => this.#create(link, config)));
  }

  /**
   * Follow a new run of what the controls show, in place of one that is gone, as soon as the server can be reached.
   *
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
   * Follow another theater or recording of this server, from record `step` (null: its newest).
   *
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

  /** Back from a recording to the live run that was followed before, or to a new one. */
  async toLive() {
    const [client, before] = [this.client, settings.theater.value];
    settings.recording.value = null;
    if (!client) return this.#connect();
    try {
      if (before) return await this.#follow(before, null);
    } catch (error) {
      if (!isUnknown(error)) return this.complain(error, client);
    }
    await this.startAnew();
  }

  /**
   * Join in place of what is followed. The live run keeps its viewer while a recording is looked at: one comes back to
   * it.
   *
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
    const heard = (answer) => {
      const left = this.run;
      batch(() => {
        store.backToLive();
        this.#now.enter(answer);
        settings.step.value = step;
      });
      if (left && left.theater !== wanted && (left.isRecording || !isRecording(wanted))) link.leave(left.theater);
    };
    await store.whileBusy(() => link.join(wanted, { from: 0 }, heard));
  }

  /** @param {() => Promise<unknown>} action what the server may refuse, which is said */
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
   * Say why what was asked of `client` was not done, unless the page itself has closed that connection.
   *
   * @param {unknown} error
   * @param {Session["client"]} client
   */
  complain(error, client) {
    if (!(error instanceof NoAnswer) || client === this.client) complain(error);
  }

  // ── No run, or none that the server adds to ────────────────────────────────────────────────────────────────────────

  /** Whether this server shows recordings only. */
  async #withoutModel() {
    await answeredFacts();
    return store.modelFacts.value?.live === false;
  }

  /** Show a recording where there is nothing else: one named on the command line, else one that comes along. */
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

  /** The recording that is followed was deleted. */
  async #removed() {
    this.#now.remove();
    store.toast(t("library.gone"));
    if (await this.#withoutModel()) await this.openFirst();
    else await this.toLive();
  }

  /** Show the trace in `buffer` from its end. Throws TraceFormatError. @param {ArrayBuffer | Uint8Array} buffer */
  open(buffer) {
    batch(() => (this.#show(logOf(buffer)), store.backToLive()));
  }

  /** Begin an empty log in place of whatever was shown: a recorded lesson fills it. @param {Uint8Array} header */
  lay(header) {
    forgetAsked();
    this.#now.lay(header);
  }

  /** @param {ReturnType<typeof logOf>} found */
  #show({ log, damage }) {
    this.#link?.close(); // what the live run does now is nothing to this log
    this.#link = null;
    this.#now.show(log);
    store.toast(damage, "error");
  }

  /** The log on show, which came from a file, is the recording `id` of the server now. @param {string} id */
  keep(id) {
    this.#now.keep(id);
  }
}

/** The session of this page. */
export const session = new Session();
