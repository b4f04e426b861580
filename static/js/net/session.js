// One theater as this page follows it: creating or joining, feeding the log, sending commands, fetching arrays.

import { batch } from "../../vendor/signals/signals.js";
import { t } from "../i18n/index.js";
import { settings } from "../model/settings.js";
import * as store from "../model/store.js";
import { asBytes, decode } from "../trace/codec.js";
import { parseTrace } from "../trace/file.js";
import { TraceLog } from "../trace/log.js";
import { Client, NoAnswer, Refusal } from "./client.js";

const SAMPLING = ["temperature", "top_k", "top_p", "min_p", "repetition_penalty", "max_tokens", "seed"];

let client = null;
let theater = null;
let epoch = null;
let pendingLayers = new Set();
let entering = false;
let early = []; // records that came in the same breath as the answer that announces them

/** Connect and follow the theater of the address, or a new one. */
export async function start() {
  if (settings.recording.value) return replay(settings.recording.value);
  fetchModelFacts();
  client = new Client({
    connect: enter,
    disconnect: () => {
      if (store.connection.value !== "replay") store.connection.value = "lost";
    },
    status: (message) => {
      if (message.theater !== theater) return;
      const before = store.status.value;
      store.status.value = message;
      if (message.error && message.error !== before?.error) store.toast(message.error, "error");
      if (message.notice && message.notice !== before?.notice) store.toast(message.notice);
    },
    reset: (message) => message.theater === theater && message.epoch !== epoch && begin(message),
    closed: (message) => {
      if (message.theater !== theater) return;
      theater = null;
      store.toast(message.reason, "error");
      enter();
    },
    records: receive,
  });
}

/** Show a recorded trace from this server instead of a live run. */
export async function replay(url) {
  const address = new URL(url, location.href);
  if (address.origin !== location.origin) return store.toast(t("error.recording_origin"), "error");
  try {
    const answer = await fetch(address);
    if (!answer.ok) throw new Error(String(answer.status));
    open(await answer.arrayBuffer());
  } catch (error) {
    store.toast(t("error.recording", { reason: error.message }), "error");
  }
}

/** Show the trace in `buffer`. Throws TraceFormatError when it is none. */
export function open(buffer) {
  const trace = parseTrace(buffer);
  const log = new TraceLog(trace.header);
  trace.records.forEach((bytes, i) => log.append(bytes, trace.captures[i]));
  batch(() => {
    store.connection.value = "replay";
    store.log.value = log;
    store.numRecords.value = log.length;
  });
  if (trace.damage) store.toast(trace.damage, "error");
}

async function fetchModelFacts() {
  try {
    const answer = await fetch("/api/model");
    if (answer.ok) store.modelFacts.value = await answer.json();
  } catch {
    // the page works without: presets of its own
  }
}

/** After every connect: join what was followed, with what is already here; else make a new theater. */
async function enter() {
  entering = true;
  const wanted = theater ?? settings.theater.value;
  try {
    if (wanted) {
      const known = theater === wanted ? { from: store.numRecords.value, epoch } : { from: 0 };
      try {
        return entered(await client.ask("join", { theater: wanted, captures: true, ...known }));
      } catch (error) {
        if (!(error instanceof Refusal && error.code === "unknown_theater")) throw error;
        store.toast(t("error.theater_gone"));
      }
    }
    store.backToLive();
    entered(await client.ask("create", { config: wantedConfig(), captures: true }));
  } catch (error) {
    complain(error);
  } finally {
    entering = false;
  }
}

function entered(answer) {
  batch(() => {
    const same = theater === answer.theater && epoch === answer.epoch;
    theater = answer.theater;
    settings.theater.value = theater;
    store.connection.value = "live";
    store.status.value = answer.status;
    focused = null;
    if (!same || !store.log.value) begin(answer);
  });
  const waiting = early;
  early = [];
  waiting.forEach(receive);
}

/** A new epoch: an empty log under its header. */
function begin(message) {
  batch(() => {
    epoch = message.epoch;
    pendingLayers = new Set();
    store.log.value = new TraceLog(asBytes(message.header));
    store.numRecords.value = 0;
    store.selected.value = store.hovered.value = null;
    settings.seq.value = null;
    adoptConfig(store.log.value.header.engine);
  });
}

/** The controls show the run that is there, whoever configured it. */
function adoptConfig(engine) {
  settings.strategy.value = engine.strategy;
  if (engine.strategy !== "contiguous") settings.block_size.value = engine.block_size;
  if (engine.strategy !== "contiguous") settings.num_blocks.value = engine.num_blocks;
}

function receive(message) {
  const log = store.log.value;
  if (!log || message.theater !== theater || message.epoch !== epoch) {
    if (entering) early.push(message);
    return;
  }
  try {
    message.records.forEach((bytes, i) => {
      const index = message.first + i;
      const captured = message.captures?.[i];
      if (index === log.length) log.append(asBytes(bytes), captured ? asBytes(captured) : null);
      else if (index > log.length) throw new Error(`record ${index} came where ${log.length} belongs`);
    });
  } catch (error) {
    console.error(error);
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
export async function wantLayer(index, layer) {
  const log = store.log.value;
  const key = `${epoch}/${index}/${layer}`;
  if (!log || !theater || !log.captureMissing(index) || pendingLayers.has(key)) return;
  pendingLayers.add(key);
  store.fetching.value += 1;
  try {
    const answer = await fetch(`/api/theaters/${theater}/records/${index}/layers/${layer}?epoch=${epoch}`);
    if (answer.ok) log.layerCaptures.set(`${index}/${layer}`, decode(new Uint8Array(await answer.arrayBuffer())));
    else if (answer.status === 404) log.captureGone.add(index);
    store.captureVersion.value += 1;
  } catch {
    pendingLayers.delete(key); // asked again at the next look
  } finally {
    store.fetching.value -= 1;
  }
}

/** Settings as an EngineConfig's fields. */
export function wantedConfig() {
  return {
    strategy: settings.strategy.value,
    block_size: settings.block_size.value,
    num_blocks: settings.num_blocks.value,
  };
}

function sampling() {
  const fields = {};
  for (const name of SAMPLING) if (settings[name].value !== null) fields[name] = settings[name].value;
  if (settings.stop.value) fields.stop = [settings.stop.value];
  return fields;
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

/** Send a command for this theater; null when it was refused (the reason is shown). */
export async function command(event, body = {}) {
  if (!client || !theater) return null;
  store.busy.value = true;
  try {
    return await client.ask(event, { theater, ...body });
  } catch (error) {
    complain(error);
    return null;
  } finally {
    store.busy.value = false;
  }
}

export const submit = (texts) => command("submit", { prompts: texts.map((text) => ({ text })), sampling: sampling() });

function complain(error) {
  if (error instanceof NoAnswer) store.toast(t("error.no_answer"), "error");
  else if (error instanceof Refusal) store.toast(error.message || t("error.internal"), "error");
  else throw error;
}

/** Address of the `.kvtrace` so far, or null in a replay. */
export const traceAddress = () => (theater ? `/api/theaters/${theater}/trace` : null);
