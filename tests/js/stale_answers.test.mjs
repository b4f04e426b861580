// Answers that come when something else is wanted already: the last wish counts, not the last answer.

import assert from "node:assert/strict";
import { test } from "node:test";

import { file, following, joined, later, session, settings, socket, soon, store } from "./session_page.mjs";

const actions = await import("../../static/js/control/actions.js");
const { followSelection, canGoBack } = await import("../../static/js/state/selection.js");
const { library, refresh, openFile } = await import("../../static/js/net/library.js");
const { comparison, followComparison } = await import("../../static/js/panels/compare/model.js");
const bench = await import("../../static/js/bench/live.js");
const { roofs, followRoofs } = await import("../../static/js/net/rooflines.js");

/** Let each fetch wait for the test: [{address, answer(status, body)}]. */
function slowFetch() {
  const asked = [];
  globalThis.fetch = (address) =>
    new Promise((done) =>
      asked.push({ address, answer: (status, body) => done({ ok: status < 300, status, json: async () => body }) }),
    );
  return asked;
}

test("the last requested list is shown", async () => {
  const asked = slowFetch();
  const both = [refresh(), refresh()];
  asked[1].answer(200, { recordings: ["new"] });
  await both[1];
  asked[0].answer(200, { recordings: [] });
  await both[0];
  assert.deepEqual(library.value, { recordings: ["new"] });
});

test("the later of two files is shown", async () => {
  library.value = { recordings: [], can_keep: false };
  let read;
  const head = { arrayBuffer: async () => file(1).slice(0, 8) };
  const whole = () => new Promise((done) => (read = () => done(file(1))));
  const first = openFile({ name: "slow", size: 10, slice: () => head, arrayBuffer: whole });
  await openFile({ name: "quick", size: 10, slice: () => head, arrayBuffer: async () => file(3) });
  read();
  await Promise.race([first, soon()]);
  assert.equal(store.numRecords.value, 3);
});

test("the last chosen speed is used", async () => {
  actions.followSpeed();
  settings.speed.value = 4;
  await following(1);
  store.status.value = { ...store.status.value, mode: "running", speed: 4 };
  settings.speed.value = 8;
  settings.speed.value = 16;
  settings.speed.value = 4;
  await soon();
  const told = [];
  for (let question; (question = socket.asked.find(({ event }) => event === "run")); await soon()) {
    socket.asked.splice(socket.asked.indexOf(question), 1);
    told.push(question.body.speed);
    assert.ok(!socket.asked.some(({ event }) => event === "run"), "two at once may overtake each other");
    question.answer({ status: {} });
  }
  assert.deepEqual(told, [8, 4]);
});

test("a pause is not undone by a speed that was chosen before it", async () => {
  settings.speed.value = 4;
  await following(1);
  store.status.value = { ...store.status.value, mode: "running", speed: 4 };
  settings.speed.value = 8;
  settings.speed.value = 2;
  actions.pause();
  socket.question("run").answer({ status: {} });
  socket.question("pause").answer({ status: {} });
  await soon();
  assert.deepEqual(
    socket.asked.filter(({ event }) => event === "run"),
    [],
  );
});

test("a machine that was busy is measured when the run was paused while the answer was on its way", async () => {
  await following(1);
  const asked = slowFetch();
  store.status.value = { ...store.status.value, mode: "running" };
  const stop = followRoofs();
  store.status.value = { ...store.status.value, mode: "paused" };
  asked[0].answer(409, {});
  await soon();
  assert.equal(asked.length, 2);
  asked[1].answer(200, { roofs: { flops_per_second: 1 } });
  await soon();
  assert.deepEqual(roofs.value, { flops_per_second: 1 });
  stop();
});

test("the way that a reader took through one run does not lead back into another", async () => {
  await following(3);
  followSelection();
  store.selected.value = { block: 0 };
  store.selected.value = { block: 1 };
  assert.equal(canGoBack.value, true);
  session.open(file(2));
  store.selected.value = { block: 2 };
  assert.equal(canGoBack.value, false);
});

test("progress that arrives before an older answer is kept", async () => {
  globalThis.fetch = async () => ({ ok: false });
  bench.followRuns();
  await soon();
  const question = socket.question("bench_follow");
  socket.handlers.bench_progress({ state: "done", scenario: "guard", run: "here-1" });
  question.answer({ status: { state: "running", scenario: "guard", run: "" } });
  await soon();
  assert.equal(bench.run.value.state, "done");
});

test("two runs that grow faster than they are compared are shown all the same, and never as they were before", async () => {
  await following(1);
  const asked = slowFetch();
  const answer = (question, records) => question.answer(200, { runs: [{ status: {} }], records });
  const compares = () => asked.filter(({ address }) => address.startsWith("api/compare"));
  const lists = () =>
    asked
      .filter(({ address }) => !address.startsWith("api/compare"))
      .forEach((one) => one.answer(200, { theaters: [], recordings: [] }));
  settings.run_b.value = "U";
  const stop = followComparison();
  for (const count of [1, 2, 3]) {
    for (let i = 0; compares().length < count && i < 100; i++) await later(10);
    store.own.numRecords.value += 1;
  }
  lists();
  const [first, second, third] = compares();
  answer(first, 1);
  await soon();
  assert.equal(comparison.value?.records, 1);
  answer(third, 3);
  await soon();
  answer(second, 2);
  await soon();
  assert.equal(comparison.value.records, 3);
  stop();
  settings.run_b.value = null;
});

test("another run is told which layer is looked at", async () => {
  actions.followFocus();
  settings.layer.value = 0;
  await following(1);
  await later(300);
  socket.question("focus", "T").answer({});
  const there = session.watch("U");
  socket.question("join", "U").answer(joined("U"));
  await there;
  await later(300);
  assert.deepEqual(socket.question("focus", "U").body.layers, [0]);
});
