// Lanes in lockstep against a small fake server: late and unneeded answers do no harm.

import assert from "node:assert/strict";
import { test } from "node:test";

import { header, oneRequest } from "./log_builder.mjs";

const OUTPUTS = 3;

const RECORDS = oneRequest(OUTPUTS, { finishes: true });

const soon = () => new Promise((done) => setTimeout(done, 1));

class Server {
  constructor() {
    this.asked = []; // [event, body]
    this.theaters = new Map();
    this.refuse = null; // (event, body) -> a sentence or null
    this.sockets = 0;
    globalThis.io = ({ transports }) => this.#socket(transports);
  }

  #socket(transports) {
    this.sockets += 1;
    const handlers = (this.handlers = {}); // of the latest connection
    const socket = {
      io: { opts: { transports }, engine: { transport: { name: "websocket" } } },
      on: (event, handler) => (handlers[event] = handler),
      disconnect: () => (handlers.gone = true),
      timeout: () => ({
        emit: (event, body, told) => this.#answer(event, body, handlers).then((answer) => told(null, answer), told),
      }),
    };
    setTimeout(() => handlers.connect(), 0);
    return socket;
  }

  async #answer(event, body, handlers) {
    this.asked.push([event, body]);
    await soon();
    const message = this.refuse?.(event, body);
    if (message) return { ok: false, error: { code: "refused", message } };
    if (event === "create") this.theaters.set((body.theater = `t${this.theaters.size}`), { epoch: 0, sent: 0 });
    const theater = this.theaters.get(body.theater);
    if (event === "configure") Object.assign(theater, { epoch: theater.epoch + 1, sent: 0 });
    if (event === "create" || event === "configure")
      return { ok: true, theater: body.theater, epoch: theater.epoch, header: header({ seed: body.config.seed }) };
    if (event === "focus") return { ok: true };
    const { epoch, sent: first } = theater;
    theater.sent += 1;
    setTimeout(
      () => handlers.gone || handlers.records({ theater: body.theater, epoch, first, records: [RECORDS[first]] }),
      1,
    );
    return { ok: true, num_records: first + 1 };
  }
}

const { settings } = await import("../../static/js/state/settings.js");
const { Lockstep } = await import("../../static/js/runs/lockstep.js");
const spec = (seed) => ({ prompts: ["a"], sampling: {}, configs: { left: { seed }, right: { seed: seed + 1 } } });
const make = (options) => new Lockstep("test", ["left", "right"], options);
/** A server, and lanes that run as fast as it answers. */
const begin = () => {
  settings.speed.value = 0;
  return { server: new Server(), lanes: make() };
};
const seeds = (lanes) => lanes.logs.value.map((log) => log.header.engine.seed);

test("lanes take turns, one step each, to their end", async () => {
  const { server, lanes } = begin();
  await lanes.run(spec(5));
  assert.equal(lanes.phase.value, "done");
  assert.equal(lanes.numSteps.value, OUTPUTS);
  assert.deepEqual(seeds(lanes), [5, 6]);
  assert.deepEqual(
    lanes.logs.value.map((log) => log.length),
    [1 + OUTPUTS, 1 + OUTPUTS],
  );
  const steps = server.asked.filter(([event]) => event === "step").map(([, body]) => body.theater);
  assert.deepEqual(steps, ["t0", "t1", "t0", "t1", "t0", "t1"]);
  assert.deepEqual(
    server.asked.filter(([event]) => event === "create").map(([, body]) => body.name),
    ["test: left", "test: right"],
  );
});

test("lanes whose arrays are not needed capture nothing", async () => {
  for (const captures of [false, true]) {
    const server = new Server();
    await make({ captures }).step(spec(0));
    assert.deepEqual(
      server.asked.filter(([event]) => event === "create").map(([, body]) => body.captures),
      [captures, captures],
    );
    assert.equal(server.asked.filter(([event]) => event === "focus").length, captures ? 0 : 2);
  }
});

test("a later request during setup replaces the first", async () => {
  const { server, lanes } = begin();
  const first = lanes.step(spec(10));
  await soon();
  lanes.reset();
  await lanes.step(spec(20));
  await first;
  assert.deepEqual(seeds(lanes), [20, 21]);
  assert.deepEqual([lanes.phase.value, lanes.numSteps.value, server.theaters.size], ["ready", 1, 2]);
});

test("a reset in the middle of a step leaves no step waiting", async () => {
  const { lanes } = begin();
  await lanes.step(spec(1));
  const running = lanes.run(spec(1));
  await soon();
  lanes.reset();
  await lanes.step(spec(3));
  await running;
  assert.deepEqual(seeds(lanes), [3, 4]);
  assert.deepEqual([lanes.phase.value, lanes.numSteps.value], ["ready", 1]);
});

test("a pause between two slow steps is one at once", async () => {
  const { lanes } = begin();
  settings.speed.value = 0.25; // four seconds from step to step
  const running = lanes.run(spec(1));
  while (lanes.numSteps.value === 0) await soon();
  await soon();
  const began = performance.now();
  lanes.pause();
  await running;
  assert.equal(lanes.phase.value, "ready");
  assert.ok(performance.now() - began < 1000);
});

test("a pause while the lanes are set up does not leave them there", async () => {
  const { lanes } = begin();
  const first = lanes.step(spec(1));
  await soon();
  lanes.pause();
  await first;
  assert.deepEqual([lanes.phase.value, lanes.numSteps.value], ["ready", 1]);
});

test("a refusal is a sentence, and the next try begins from the start", async () => {
  const server = new Server();
  server.refuse = (event, body) => (event === "create" && body.name === "test: right" ? "no room" : null);
  const lanes = make();
  await lanes.step(spec(1));
  assert.deepEqual([lanes.phase.value, lanes.problem.value, lanes.logs.value], ["idle", { message: "no room" }, null]);
  server.refuse = null;
  await lanes.step(spec(1));
  assert.deepEqual(
    [lanes.phase.value, lanes.problem.value, lanes.numSteps.value, server.sockets],
    ["ready", null, 1, 2],
  );
});

test("after a reset the same theaters run another spec", async () => {
  const { server, lanes } = begin();
  await lanes.run(spec(1));
  lanes.reset();
  assert.deepEqual([lanes.logs.value, lanes.numSteps.value, lanes.phase.value], [null, 0, "idle"]);
  await lanes.run(spec(7));
  assert.deepEqual([seeds(lanes), lanes.numSteps.value, server.theaters.size], [[7, 8], OUTPUTS, 2]);
});

test("a lost connection ends the run: what was run stays, and the next begins on another", async () => {
  const { server, lanes } = begin();
  await lanes.step(spec(1));
  server.handlers.disconnect("transport close");
  assert.deepEqual([lanes.phase.value, lanes.problem.value], ["idle", { message: "" }]);
  assert.deepEqual([lanes.logs.value.length, lanes.numSteps.value], [2, 1]);
  await lanes.step(spec(1));
  assert.deepEqual([lanes.phase.value, lanes.problem.value, server.sockets], ["ready", null, 2]);
});

test("a session closed during a step is reported once", async () => {
  const { server, lanes } = begin();
  await lanes.step(spec(1));
  const stepping = lanes.step(spec(1));
  await soon();
  server.handlers.closed({ theater: "t0", reason: "no step for an hour" });
  await stepping;
  assert.deepEqual([lanes.phase.value, lanes.problem.value], ["idle", { message: "no step for an hour" }]);
});

test("a theater that the server closed ends the run with its reason", async () => {
  const { server, lanes } = begin();
  await lanes.step(spec(1));
  server.handlers.closed({ theater: "t9", reason: "another's" });
  assert.equal(lanes.phase.value, "ready");
  server.handlers.closed({ theater: "t1", reason: "no step for an hour" });
  assert.deepEqual([lanes.phase.value, lanes.problem.value], ["idle", { message: "no step for an hour" }]);
});

test("several sets of lanes run at once, each on theaters of its own", async () => {
  const server = new Server();
  const [one, other] = [make(), make()];
  await Promise.all([one.step(spec(1)), other.step(spec(5))]);
  assert.deepEqual(
    [seeds(one), seeds(other)],
    [
      [1, 2],
      [5, 6],
    ],
  );
  assert.deepEqual([server.theaters.size, server.sockets], [4, 2]);
});

test("requests during setup run when the lanes are ready", async () => {
  const { lanes } = begin();
  const first = lanes.prepare(spec(1));
  await soon();
  assert.equal(lanes.phase.value, "opening");
  await lanes.step(spec(1));
  await first;
  assert.deepEqual([lanes.phase.value, lanes.numSteps.value], ["ready", 1]);
});

test("a request replaces only an uncomputed one", async () => {
  const { server, lanes } = begin();
  await lanes.prepare(spec(1));
  assert.deepEqual([lanes.phase.value, seeds(lanes), lanes.numSteps.value], ["ready", [1, 2], 0]);
  await lanes.prepare(spec(5));
  assert.deepEqual([seeds(lanes), server.theaters.size], [[5, 6], 2]);
  await lanes.step(spec(7)); // asked for with the step
  assert.deepEqual([seeds(lanes), lanes.numSteps.value], [[7, 8], 1]);
  await lanes.prepare(spec(9));
  await lanes.step(spec(9));
  assert.deepEqual([seeds(lanes), lanes.numSteps.value], [[7, 8], 2]);
});

test("after a restart the previous runs stay until the new ones arrive", async () => {
  const { lanes } = begin();
  await lanes.step(spec(1));
  const before = lanes.logs.value;
  const begun = lanes.restart(spec(3));
  assert.deepEqual([lanes.logs.value, lanes.numSteps.value, lanes.phase.value], [before, 0, "opening"]);
  await begun;
  assert.deepEqual([seeds(lanes), lanes.numSteps.value, lanes.phase.value], [[3, 4], 0, "ready"]);
});

test("leaving lanes without a computed step closes their sessions; others wait, and do not run", async () => {
  const { server, lanes } = begin();
  await lanes.prepare(spec(1));
  lanes.leave();
  assert.deepEqual([lanes.logs.value, lanes.phase.value, server.handlers.gone], [null, "idle", true]);
  settings.speed.value = 0.25;
  const running = lanes.run(spec(1));
  while (lanes.numSteps.value === 0) await soon();
  lanes.leave();
  await running;
  assert.deepEqual([lanes.phase.value, lanes.numSteps.value, server.handlers.gone], ["ready", 1, undefined]);
  settings.speed.value = 0;
});
