// A race: one theater for each strategy, on a connection of its own, stepped together. The page's own run is left alone.

import { batch, signal } from "../../vendor/signals/signals.js";
import { asBytes } from "../trace/codec.js";
import { TraceLog } from "../trace/log.js";
import { Client, Refusal } from "./client.js";

export const STRATEGIES = ["none", "contiguous", "paged"];

/** idle · opening · ready · running · done */
export const phase = signal("idle");
/** The lanes' logs in the order of STRATEGIES; null before the first race. They grow: `numSteps` says how far. */
export const logs = signal(null);
/** Steps that the lanes have taken together. */
export const numSteps = signal(0);
/** What was raced: {prompt, sampling}, or null. */
export const asked = signal(null);
/** Why it could not go on: {message} of the server or {lost: true}; null. */
export const problem = signal(null);
/** Steps a second; 0 = as fast as it goes. */
export const speed = signal(8);

let client = null;
let connected = null; // a promise while connecting
let lanes = []; // {strategy, theater, epoch, log, waiting: [{length, done}]}
let turn = 0; // grows when whatever is under way is to stop

/** Take one step in every lane, after setting the race up if there is none; `wish` = {config, prompt, sampling}. */
export async function step(wish) {
  if (!(await ready(wish))) return;
  await go(1);
}

/** Step until every lane is done, or `pause`. */
export async function run(wish) {
  if (await ready(wish)) await go(Infinity);
}

/** Stop after the step under way. */
export function pause() {
  turn += 1;
}

/** Forget the race; the next step begins another. The theaters are kept for it. */
export function reset() {
  turn += 1;
  batch(() => {
    logs.value = asked.value = problem.value = null;
    numSteps.value = 0;
    phase.value = "idle";
  });
}

/** The panel is gone: a race that is not under way gives its theaters back. */
export function leave() {
  if (phase.value === "idle" || phase.value === "done") disconnect();
}

async function ready(wish) {
  if (phase.value === "ready") return true;
  if (phase.value !== "idle") return false;
  const mine = ++turn;
  batch(() => {
    phase.value = "opening";
    problem.value = null;
  });
  try {
    await connect();
    for (const strategy of STRATEGIES) await open(strategy, { ...wish.config, strategy });
    for (const lane of lanes) {
      const answer = await client.ask("submit", { theater: lane.theater, prompts: [{ text: wish.prompt }], sampling: wish.sampling });
      await arrival(lane, answer.num_records);
    }
    if (mine !== turn) return false;
    batch(() => {
      asked.value = { prompt: wish.prompt, sampling: wish.sampling };
      logs.value = lanes.map((lane) => lane.log);
      numSteps.value = 0;
      phase.value = "ready";
    });
    return true;
  } catch (error) {
    return mine === turn && fail(error);
  }
}

/** One step in each lane, then the next: a step never shares the machine with another lane's. */
async function go(count) {
  const mine = ++turn;
  const racing = logs.value;
  const over = () => logs.value !== racing; // reset meanwhile
  phase.value = "running";
  try {
    for (let taken = 0; taken < count && mine === turn; taken++) {
      const began = performance.now();
      for (const lane of lanes) {
        if (over()) return;
        if (!unfinished(lane)) continue;
        const answer = await client.ask("step", { theater: lane.theater, expect: lane.log.length });
        await arrival(lane, answer.num_records);
      }
      if (over()) return;
      numSteps.value += 1;
      if (!lanes.some(unfinished)) return void (phase.value = "done");
      if (taken + 1 < count && speed.value) await rest(1000 / speed.value - (performance.now() - began));
    }
    if (!over()) phase.value = "ready";
  } catch (error) {
    if (!over()) fail(error);
  }
}

const unfinished = (lane) => lane.log.tail.waiting.length + lane.log.tail.running.length > 0;
const rest = (ms) => (ms > 0 ? new Promise((done) => setTimeout(done, ms)) : undefined);

/** The lane of `strategy` with an empty log: the theater that is there under the new settings, or a new one. */
async function open(strategy, config) {
  let lane = lanes.find((known) => known.strategy === strategy);
  const answer = lane
    ? await client.ask("configure", { theater: lane.theater, config })
    : await client.ask("create", { config, name: `race: ${strategy}`, captures: false });
  if (!lane) {
    lanes.push((lane = { strategy, theater: answer.theater, waiting: [] }));
    await client.ask("focus", { theater: lane.theater, layers: [], heads: null }); // nobody looks at its tensors, and they cost time
  }
  lane.epoch = answer.epoch;
  lane.log = new TraceLog(asBytes(answer.header));
}

function receive(message) {
  const lane = lanes.find((known) => known.theater === message.theater);
  if (!lane || message.epoch !== lane.epoch) return;
  try {
    message.records.forEach((bytes, i) => {
      if (message.first + i === lane.log.length) lane.log.append(asBytes(bytes));
    });
  } catch (error) {
    return fail(error);
  }
  const here = lane.waiting.filter(({ length }) => lane.log.length >= length);
  lane.waiting = lane.waiting.filter((one) => !here.includes(one));
  for (const { done } of here) done();
}

/** Resolves when the lane's log has `length` records. */
function arrival(lane, length) {
  return lane.log.length >= length ? undefined : new Promise((done, failed) => lane.waiting.push({ length, done, failed }));
}

function connect() {
  connected ??= new Promise((done) => {
    client = new Client({
      connect: done,
      disconnect: () => lost(),
      status: () => {},
      reset: () => {},
      closed: (message) => lanes.some((lane) => lane.theater === message.theater) && lost(message.reason),
      records: receive,
    });
  });
  return connected;
}

/** The connection or a theater is gone. What was raced stays to be looked at; a new race begins from the start. */
function lost(message = "") {
  if (!lanes.length) return;
  const over = phase.value === "idle" || phase.value === "done";
  turn += 1;
  disconnect();
  if (!over) fail(new Refusal({ code: "lost", message }));
}

function disconnect() {
  for (const lane of lanes) for (const { failed } of lane.waiting) failed(new Refusal({ code: "lost", message: "" }));
  lanes = [];
  connected = null;
  client?.socket.disconnect();
  client = null;
}

/** Say why, and begin anew the next time. */
function fail(error) {
  if (!(error instanceof Refusal)) console.error(error);
  disconnect();
  batch(() => {
    problem.value = error instanceof Refusal && error.message ? { message: error.message } : { lost: true };
    phase.value = "idle";
  });
  return false;
}
