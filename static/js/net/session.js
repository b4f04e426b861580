// One theater as this page follows it: creating or joining, feeding the log, sending commands, fetching arrays.

import { batch, signal } from "../../vendor/signals/signals.js";
import { asBytes } from "../core/codec.js";
import { parseTrace } from "../core/file.js";
import { LIVE_CAPTURES, TraceLog } from "../core/log.js";
import { embeddedTrace, isEmbedded } from "../state/embedded.js";
import { adoptConfig, differing, wantedConfig, wantedSampling } from "../state/run_settings.js";
import { settings } from "../state/settings.js";
import * as store from "../state/store.js";
import { t } from "../tell/words.js";
import { Client, NoAnswer, Refusal } from "./client.js";
import { LayerFetcher } from "./layers.js";

/** Why there is no run to follow, as the server said it; null when it did not say or there is one. */
export const trouble = signal(null);

/** The status of a theater on which a run is made again for this page; null when none is. */
export const forking = signal(null);

let client = null;
let facts = null; // a promise of what the server says of its model
let theater = null;
let epoch = null;
let resetting = 0; // resets that this page asked for and that are not answered yet
let ownEpoch = null; // the epoch that the last of them began
let layers = null; // who fetches the arrays of the log that is followed
let turn = 0; // of joining and creating: the run that was asked for last is the one that is followed
let joining = null; // the theater that was asked for last; null when a new one was
let contradicted = null; // the log of a recording that cannot be read on

/** Connect and follow the theater of the address, or a new one. */
export async function start() {
  if (isEmbedded) return show(await embeddedTrace());
  if (settings.recording.value && !isRecording(settings.recording.value)) return replay(settings.recording.value);
  connect();
}

/** Whether an id is a recording's: one joins it like a theater, and only reads. */
const isRecording = (id) => Boolean(id?.startsWith("rec-"));

function connect() {
  facts = fetchModelFacts();
  client = new Client({
    connect: enter,
    disconnect: () => {
      if (reading() || isRecording(theater)) return; // what is here can be read on
      store.connection.value = "lost";
    },
    status: (message) => {
      if (message.fork?.source === theater && !message.fork.forked) forking.value = message;
      if (message.theater !== theater || message.epoch < epoch) return; // of the run before a reset
      const before = store.status.value;
      store.status.value = message;
      if (message.error && message.error !== before?.error) tell(message.error, message.objection);
      if (message.notice && message.notice !== before?.notice) store.toast(message.notice);
    },
    reset: (message) => {
      if (message.theater !== theater || message.epoch === epoch) return;
      const byOther = !resetting && message.epoch !== ownEpoch && store.status.value?.mode !== "recording"; // a benchmark's next run is nobody's reset
      if (byOther) store.toast(t("connection.reset_by_other"));
      begin(message);
    },
    closed: (message) => {
      if (message.theater !== theater) return;
      if (isRecording(theater)) leaveRecording();
      else lose(message.reason);
    },
    records: receive,
  });
}

/** Whether what is here is all there will be: a file's log, or that of a run that is gone. */
const reading = () => (store.connection.value === "replay" && theater === null) || store.connection.value === "gone";

/** Show the trace at an address of this server, the whole file at once. */
async function replay(url) {
  const address = new URL(url, location.href);
  if (address.origin !== location.origin) return store.toast(t("error.recording_origin"), "error");
  try {
    const answer = await fetch(address);
    if (!answer.ok) throw new Error(String(answer.status));
    const buffer = await answer.arrayBuffer();
    if (!store.log.value) show(buffer); // else somebody has opened another one meanwhile
  } catch (error) {
    store.toast(t("error.recording", { reason: error.message }), "error");
  }
}

/** Show the trace in `buffer` from its end, whatever was shown before. Throws TraceFormatError when it is none. */
export function open(buffer) {
  show(buffer);
  store.backToLive();
}

function show(buffer) {
  const trace = parseTrace(buffer);
  const log = new TraceLog(trace.header);
  trace.records.forEach((bytes, i) => log.append(bytes, trace.captures[i]));
  client?.disconnect(); // what the live run does now is nothing to this log
  client = null;
  theater = null;
  layers = null;
  batch(() => {
    leaveLog();
    store.connection.value = "replay";
    store.status.value = null;
    store.log.value = log;
    store.numRecords.value = log.length;
  });
  if (trace.damage) store.toast(trace.damage, "error");
}

async function fetchModelFacts() {
  try {
    const answer = await fetch("/api/model");
    if (answer.ok) store.modelFacts.value = await answer.json();
    // now that the server's own settings are known, a link need not repeat them
    if (store.connection.value === "live" && store.log.value && !differing().length)
      adoptConfig(store.log.value.header.engine);
  } catch {
    // the page works without: presets of its own
  }
}

/** After every connect: join what was followed, with what is already here; without anything to follow make a theater. */
async function enter() {
  if (reading()) return;
  const mine = turn + 1;
  const wanted = theater ?? settings.recording.value ?? settings.theater.value;
  try {
    if (!wanted) return void (await create(wantedConfig()));
    const known = theater === wanted ? { from: store.numRecords.value, epoch } : { from: 0 };
    await join(wanted, known, entered);
  } catch (error) {
    if (!client || mine !== turn) return; // a file has taken its place, or another run
    if (!wanted && (await withoutModel())) await openFirst();
    else if (error instanceof Refusal && error.code === "unknown_theater") lose();
    else if (error instanceof Refusal && !store.log.value) lose(error.message);
    else complain(error);
  }
}

/** Join a theater or recording, and go on with its answer unless another run was asked for meanwhile. */
function join(wanted, known, goOn) {
  const mine = ++turn;
  joining = wanted;
  const heard = (answer) => (mine === turn ? goOn(answer) : overtaken(answer.theater));
  return client.ask("join", { theater: wanted, captures: true, ...known }, { heard });
}

/** Another run was asked for before the answer of this one came: what nobody here looks at must not seem to be watched. */
function overtaken(other) {
  const kept = isRecording(theater) && other === settings.theater.value; // the live run that one comes back to
  if (other !== theater && other !== joining && !kept) leave(other);
}

/** Whether this server shows recordings only. */
async function withoutModel() {
  await facts;
  return store.modelFacts.value?.live === false;
}

/** Put a recording on stage where there is nothing else to show: one named on the command line, else one that comes along. */
export async function openFirst() {
  settings.detail.value = "library";
  const asked = client;
  const { recordings } = await (await fetch("/api/recordings")).json();
  if (client !== asked) return; // a file was opened meanwhile
  const first = ["file", "shipped", "library"].flatMap((source) =>
    recordings.filter((entry) => entry.source === source),
  )[0];
  if (first) await watch(first.id);
  else lose(t("library.nothing_here"));
}

/** The run is gone: what is here can be read on, and another one can be started. */
function lose(reason = null) {
  settings.recording.value = null;
  theater = null;
  layers = null;
  if (store.log.value) store.log.value.fetchable = false;
  batch(() => {
    trouble.value = reason;
    store.status.value = null;
    store.connection.value = "gone";
  });
}

async function create(config) {
  const mine = ++turn;
  joining = null;
  const heard = (answer) => {
    if (mine !== turn) return overtaken(answer.theater);
    const left = theater;
    batch(() => {
      store.backToLive();
      entered(answer);
    });
    if (left) leave(left);
  };
  await client.ask("create", { config, captures: true }, { heard });
}

/** Be a viewer no more; a theater that is closed needs no leaving. */
const leave = (left) => client.ask("leave", { theater: left }).catch(() => {});

/** Follow a new run, of `config` or of what the controls show, in place of the one that is followed or gone. Whether there is one now. */
export async function startAnew(config = wantedConfig()) {
  try {
    await store.whileBusy(() => create(config));
    return true;
  } catch (error) {
    complain(error);
    return false;
  }
}

/** Follow another theater or recording of this server, from record `step` (null: its newest). Whether it could be joined. */
export async function watch(wanted, step = null) {
  if (wanted === theater) {
    turn += 1; // and no other that was asked for before
    joining = wanted;
    return true;
  }
  try {
    await follow(wanted, step);
    return true;
  } catch (error) {
    complain(error);
    return false;
  }
}

/** Join in place of what is followed. The live run keeps its viewer while a recording is looked at: one comes back to it. */
async function follow(wanted, step) {
  if (!client) {
    settings.recording.value = isRecording(wanted) ? wanted : null;
    if (!isRecording(wanted)) settings.theater.value = wanted;
    return connectAnew();
  }
  const heard = (answer) => {
    const left = theater;
    batch(() => {
      store.backToLive();
      entered(answer);
      settings.step.value = step;
    });
    if (left && left !== wanted && (isRecording(left) || !isRecording(wanted))) leave(left);
  };
  await store.whileBusy(() => join(wanted, { from: 0 }, heard));
}

/** Connect where a file had taken the run's place. */
function connectAnew() {
  theater = epoch = null;
  batch(() => {
    store.backToLive();
    store.log.value = null;
    store.numRecords.value = 0;
    store.selected.value = store.hovered.value = null;
    store.connection.value = "connecting";
  });
  connect();
}

/** Back from a recording to the live run that was followed before, or to a new one. */
export async function toLive() {
  const before = settings.theater.value;
  settings.recording.value = null;
  if (!client) return connectAnew();
  try {
    if (before) return await follow(before, null);
  } catch (error) {
    if (!(error instanceof Refusal && error.code === "unknown_theater")) return complain(error);
  }
  await startAnew();
}

/** The recording on stage was deleted. */
async function leaveRecording() {
  theater = null;
  store.toast(t("library.gone"));
  if (await withoutModel()) await openFirst();
  else await toLive();
}

/** The log on stage, which came from a file, is the recording `id` now. */
export function isKept(id) {
  theater = settings.recording.value = id;
  epoch = 0;
}

function entered(answer) {
  batch(() => {
    const same = theater === answer.theater && epoch === answer.epoch;
    theater = answer.theater;
    settings.recording.value = isRecording(theater) ? theater : null;
    if (!isRecording(theater)) settings.theater.value = theater;
    trouble.value = null;
    store.connection.value = isRecording(theater) ? "replay" : "live";
    store.status.value = answer.status;
    store.captureVersion.value += 1; // arrays that could not be fetched are asked for again
    focused = null;
    if (!same || !store.log.value) begin(answer);
    if (!same && isRecording(theater)) store.toast(answer.status.error, "error"); // where a damaged file ends
  });
}

/** A new epoch: an empty log under its header. The first one is looked at as the address says, a later one at its newest. */
function begin(message) {
  batch(() => {
    if (store.log.value) store.backToLive();
    leaveLog();
    epoch = message.epoch;
    store.log.value = new TraceLog(asBytes(message.header), LIVE_CAPTURES);
    layers = fetchLayersOf(store.log.value);
    store.numRecords.value = 0;
    if (!isRecording(theater)) adoptConfig(store.log.value.header.engine);
  });
}

/** Ids and blocks mean something else in another log: nothing that was held or chosen in this one goes along. */
function leaveLog() {
  if (store.log.value) settings.seq.value = null; // the first log is looked at as the address says
  store.selected.value = store.hovered.value = null;
}

function receive(message) {
  const log = store.log.value;
  if (!log || log === contradicted || message.theater !== theater || message.epoch !== epoch) return;
  try {
    message.records.forEach((bytes, i) => {
      const index = message.first + i;
      const captured = message.captures?.[i];
      if (index === log.length) log.append(asBytes(bytes), captured ? asBytes(captured) : null);
      else if (index > log.length) throw new Error(`record ${index} came where ${log.length} belongs`);
    });
  } catch (error) {
    console.error(error);
    if (isRecording(theater)) {
      // the file says so, and would say so again: what came before is a run all the same
      store.toast(t("error.recording", { reason: error.message }), "error");
      store.numRecords.value = log.length;
      contradicted = log;
      return;
    }
    store.toast(t("error.log", { reason: error.message }), "error");
    theater = null; // read the log again from its beginning
    epoch = null;
    store.log.value = null;
    enter();
    return;
  }
  store.numRecords.value = log.length;
}

/** Fetch one layer's arrays of a record, once; the views draw again when they are here. */
export const wantLayer = (index, layer) => layers?.want(index, layer);

/** The arrays of `log` come from the theater that is followed now. */
function fetchLayersOf(log) {
  const from = `/api/theaters/${theater}/layers`;
  const query = `epoch=${epoch}`;
  return new LayerFetcher(log, {
    address: (layer, records) => `${from}/${layer}?${query}&records=${records}`,
    asking: (by) => (store.fetching.value += by),
    arrived: () => (store.captureVersion.value += 1),
  });
}

const FOCUS_DELAY = 250; // ms after the last choice of a layer
let focused = null;
let focusTimer = null;

/** Which layer the capture keeps first when its byte budget is short. */
export function focusOn(layer) {
  clearTimeout(focusTimer);
  focusTimer = setTimeout(async () => {
    const layers = [layer];
    if (store.connection.value !== "live" || !theater || JSON.stringify(layers) === JSON.stringify(focused)) return;
    focused = layers;
    try {
      await client.ask("focus", { theater, layers, heads: null });
    } catch {
      focused = null; // captures are a little less complete, nothing else
    }
  }, FOCUS_DELAY);
}

/** How the bundled model will see `text`; null when the server does not say. */
export async function asTheModelSees(text) {
  if (!client?.connected) return null;
  try {
    return (await client.ask("tokenize", { text })).text;
  } catch {
    return null;
  }
}

const LONG = 30 * 60_000; // ms; a run that is made again takes as long as it took

/** Send a command for this theater; null when it was refused: the reason is shown for a while, and given to `refused`. */
export async function command(event, body = {}, refused = () => {}) {
  if (!client || !theater) return null;
  const resets = event === "reset" || event === "configure";
  if (resets) resetting += 1;
  try {
    const asked = { theater, ...body };
    const answer = await store.whileBusy(() => client.ask(event, asked, event === "fork" ? { timeout: LONG } : {}));
    if (resets) ownEpoch = answer.epoch;
    return answer;
  } catch (error) {
    complain(error);
    refused(error);
    return null;
  } finally {
    if (resets) resetting -= 1;
  }
}

/** Queue prompts, all or none. */
export const submit = (texts) => {
  const priority = settings.priority.value;
  const prompts = texts.map((text) => (priority ? { text, priority } : { text }));
  return command("submit", { prompts, sampling: wantedSampling() });
};

function complain(error) {
  if (error instanceof NoAnswer) {
    if (client) store.toast(t("error.no_answer"), "error"); // without one the page has gone away itself
  } else if (error instanceof Refusal) tell(error.message || t("error.internal"), error.objection);
  else throw error;
}

/** Show what went wrong: the server's sentence, or a guard's objection in the page's language. */
async function tell(message, objection) {
  const words = objection ? await import("../tell/objections.js").catch(() => null) : null;
  store.toast(words ? words.stepFailed(objection) : message, "error");
}

/** Where the server has `what` of the run that is followed: `trace` is the log so far; null when the run is not on the server. */
export const runAddress = (what) => (theater ? `/api/theaters/${theater}/${what}` : null);
