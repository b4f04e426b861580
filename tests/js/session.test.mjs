// The run that a page follows, when answers come late, out of turn, or not at all.

import assert from "node:assert/strict";
import { test } from "node:test";

import { asksForControl, rememberSession } from "../../static/js/net/created_sessions.js";
import { header } from "./log_builder.mjs";
import {
  coming,
  command,
  errors,
  file,
  following,
  joined,
  session,
  settings,
  socket,
  soon,
  store,
} from "./session_page.mjs";

test("records in flight during a rejoin belong to the old viewer", async () => {
  await following(2);
  const away = session.watch("rec-1");
  socket.question("join", "rec-1").answer(joined("rec-1"));
  await away;
  const back = session.toLive(); // the run went on meanwhile, and its viewer is still served
  socket.records("T", 2, 1);
  socket.question("join", "T").answer(joined("T"));
  socket.records("T", 0, 4);
  await back;
  await soon();
  assert.deepEqual(errors(), []);
  assert.deepEqual([store.connection.value, store.numRecords.value], ["live", 4]);
});

test("messages received with the answer belong to it", async () => {
  await following(1);
  const away = session.watch("rec-1");
  socket.question("join", "rec-1").answer(joined("rec-1"));
  socket.records("rec-1", 0, 3);
  await away;
  assert.deepEqual([store.connection.value, store.numRecords.value], ["replay", 3]);
});

test("of two runs that were asked for, the later one is followed, whichever is answered first", async () => {
  await following(1);
  const first = session.watch("rec-large");
  const second = session.watch("rec-small");
  socket.question("join", "rec-small").answer(joined("rec-small"));
  socket.records("rec-small", 0, 2);
  socket.question("join", "rec-large").answer(joined("rec-large"));
  socket.records("rec-large", 0, 3);
  await Promise.all([first, second]);
  assert.deepEqual([settings.recording.value, store.numRecords.value], ["rec-small", 2]);
});

test("a viewer of the current run is not moved to one requested before", async () => {
  await following(2);
  const away = session.watch("rec-1");
  assert.equal(await session.watch("T"), true);
  socket.question("join", "rec-1").answer(joined("rec-1"));
  await away;
  assert.deepEqual([settings.theater.value, settings.recording.value, store.numRecords.value], ["T", null, 2]);
});

test("a run that was superseded is left, since this page will not show it", async () => {
  await following(1);
  const anew = session.startNewRun();
  const joined1 = session.watch("U");
  const joined2 = session.watch("V");
  socket.question("join", "V").answer(joined("V"));
  socket.question("leave", "T").answer({}); // the one before
  socket.question("join", "U").answer(joined("U"));
  socket.question("create").answer(joined("N"));
  socket.question("leave", "U").answer({});
  socket.question("leave", "N").answer({});
  await Promise.all([anew, joined1, joined2]);
  assert.deepEqual([settings.theater.value, socket.asked.length, errors()], ["V", 0, []]);
});

test("a run that was asked for twice is not left by the first answer", async () => {
  await following(1);
  const all = ["U", "V", "U"].map((wanted) => session.watch(wanted));
  for (const wanted of ["U", "V", "U"]) socket.question("join", wanted).answer(joined(wanted));
  socket.question("leave", "V").answer({});
  socket.question("leave", "T").answer({});
  await Promise.all(all);
  assert.deepEqual([settings.theater.value, socket.asked.length], ["U", 0]);
});

test("a status of the run before a reset says nothing of the one after it", async () => {
  await following(2);
  socket.handlers.reset({ theater: "T", epoch: 1, header: header(), num_records: 0 });
  socket.handlers.status({ theater: "T", epoch: 1, mode: "paused", num_records: 0 });
  socket.handlers.status({ theater: "T", epoch: 0, mode: "running", num_records: 40 });
  assert.deepEqual([store.status.value.mode, store.status.value.num_records, store.numRecords.value], ["paused", 0, 0]);
});

test("a file that replaces a run gets no error of that run", async () => {
  await following(2);
  const step = command("step", {});
  session.open(file(3));
  assert.equal(await step, null);
  assert.deepEqual(errors(), []);
  assert.deepEqual([store.connection.value, store.numRecords.value, store.busy.value], ["replay", 3, false]);
});

test("a file dropped before there is a run stays on stage", async () => {
  await coming(null);
  assert.equal(socket.asked[0].event, "create");
  session.open(file(3));
  await soon();
  assert.deepEqual(errors(), []);
  assert.deepEqual([store.connection.value, store.numRecords.value], ["replay", 3]);
});

test("buttons are enabled when all commands are done", async () => {
  await coming("a");
  socket.question("join", "a").answer(joined("a"));
  await soon();
  const one = command("step"),
    other = command("abort", { request_id: "r" });
  await soon();
  socket.question("abort").answer({ num_records: 1 });
  await other;
  assert.equal(store.busy.value, true, "the step is still under way");
  socket.question("step").answer({ num_records: 1, performed: 1 });
  await one;
  assert.equal(store.busy.value, false);
});

test("a linked run is not controlled before confirmation", async () => {
  await coming("another's", { isOwn: false });
  socket.question("join", "another's").answer(joined("another's"));
  await soon();
  assert.equal(await command("step"), null);
  assert.deepEqual([asksForControl.value, socket.asked.length], [true, 0]);
  rememberSession("another's");
  const step = command("step");
  await soon();
  socket.question("step").answer({ num_records: 1, performed: 1 });
  await step;
  assert.equal(asksForControl.value, false);
});

test("a WebSocket without an answer is followed by polling, and by a WebSocket again if that is not answered", async () => {
  await following(1);
  const { opts } = socket.io;
  const ways = [opts.transports.join()];
  for (const message of ["xhr poll error", "timeout", "timeout"]) {
    socket.handlers.connect_error(new Error(message));
    ways.push(opts.transports.join());
  }
  assert.deepEqual(ways, ["websocket,polling", "websocket,polling", "polling", "websocket,polling"]);
});

test("of two changes of the settings the second is sent when the first is done, and the prompts come back once", async () => {
  const { applyConfig } = await import("../../static/js/control/restart.js");
  const { draft, draftIsSent } = await import("../../static/js/state/prompts.js");
  await coming("a");
  socket.question("join", "a").answer(joined("a"));
  socket.records("a", 0, 1);
  await soon();
  assert.deepEqual([draft.value, draftIsSent.value], ["a", true], "the box has the run's own prompt");
  settings.block_size.value = 8;
  const first = applyConfig();
  await soon();
  settings.block_size.value = 4;
  const second = applyConfig();
  settings.block_size.value = 2;
  const third = applyConfig();
  await soon();
  const asked = socket.question("configure");
  assert.equal(asked.body.config.block_size, 8);
  assert.equal(socket.asked.length, 0, "requests may overtake each other");
  asked.answer({ epoch: 1, header: joined("a").header });
  await soon();
  const last = socket.question("configure");
  assert.equal(last.body.config.block_size, 2, "the second one has nothing that the third has not");
  last.answer({ epoch: 2, header: joined("a").header });
  await Promise.all([first, second, third]);
  assert.deepEqual([draft.value, draftIsSent.value], ["a", false], "it waits to be sent again");
  assert.equal(socket.asked.length, 0);
});

test("selections are reset for a file that replaces a run", async () => {
  await following(3);
  store.selected.value = { block: 1 };
  settings.seq.value = 0;
  session.open(file(2));
  assert.deepEqual([store.selected.value, settings.seq.value], [null, null]);
});

const large = (more = {}) => socket.handlers.large({ theater: "T", epoch: 0, num_records: 30, ...more });

/** Requests of the page to a log index from now on, to be answered with the number of indexed records. */
function surveys() {
  const asked = [];
  const before = globalThis.fetch;
  globalThis.fetch = (address) =>
    address.includes("/survey?")
      ? new Promise((done) => asked.push((num_surveyed) => done({ ok: true, json: async () => ({ num_surveyed }) })))
      : before(address);
  return {
    asked,
    tell: async (count) => (asked.shift()(count), await soon()),
    end: () => void (globalThis.fetch = before),
  };
}

test("a run that becomes longer than a page keeps is let go when windows of it are there, and looked at where it was", async () => {
  await following(4);
  const survey = surveys();
  store.goTo(2);
  store.select({ block: 1 });
  settings.seq.value = 0;
  large({ epoch: 1 });
  large({ theater: "U" });
  await soon();
  assert.equal(survey.asked.length, 0, "that was said of other runs");
  large();
  await soon();
  socket.records("T", 4, 1);
  assert.equal(store.numRecords.value, 5, "it goes on while it is surveyed");
  await survey.tell(4); // all that was here when it became long
  const again = socket.question("join", "T");
  assert.deepEqual([again.body.windows, again.body.from], [true, 5]);
  again.answer(joined("T", { large: true, num_records: 30, from: 30, status: { theater: "T", num_records: 30 } }));
  await soon();
  const { header: told } = store.own.log.value; // what came meanwhile is shown until it is surveyed too
  await survey.tell(5);
  assert.equal(store.own.log.value, null);
  assert.deepEqual(store.longRun.value, { theater: "T", header: told });
  assert.deepEqual([store.viewIndex.value, store.selected.value?.block, settings.seq.value], [2, 1, 0]);
  assert.equal(store.toasts.value.length, 1); // and says so
  socket.records("T", 4, 1); // was on its way
  socket.handlers.status({ theater: "T", epoch: 0, mode: "running", num_records: 40 });
  assert.deepEqual([store.numRecords.value, store.viewIndex.value, errors()], [40, 2, []]);
  store.backToLive();
  assert.equal(store.viewIndex.value, 39);
  socket.handlers.reset({ theater: "T", epoch: 1, header: header(), num_records: 0 });
  socket.records("T", 0, 2, 1);
  assert.deepEqual([store.longRun.value, store.numRecords.value, store.selected.value], [null, 2, null]);
  survey.end();
});

test("a run that is left, or begins anew, while it is surveyed is not turned to windows", async () => {
  for (const leave of [
    () => session.open(file(2)),
    () => socket.handlers.reset({ theater: "T", epoch: 1, header: header(), num_records: 0 }),
  ]) {
    await following(3);
    const survey = surveys();
    large();
    await soon();
    leave();
    await survey.tell(3);
    assert.equal(socket.asked.length, 0);
    assert.deepEqual([store.longRun.value, store.own.log.value === null], [null, false]);
    survey.end();
  }
});

test("a run that became long while the server was away is let go when it is back", async () => {
  await following(4);
  const survey = surveys();
  store.goTo(1);
  socket.handlers.disconnect("transport close");
  socket.handlers.connect();
  await soon();
  const status = { theater: "T", num_records: 30 };
  socket.question("join", "T").answer(joined("T", { large: true, num_records: 30, from: 30, status }));
  await soon();
  await survey.tell(4);
  assert.deepEqual([store.own.log.value, store.longRun.value?.theater], [null, "T"]);
  assert.deepEqual([store.connection.value, store.numRecords.value, store.viewIndex.value], ["live", 30, 1]);
  store.backToLive();
  survey.end();
});
