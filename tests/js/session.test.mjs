// The run that a page follows, when answers come late, out of turn, or not at all.

import assert from "node:assert/strict";
import { test } from "node:test";

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

test("records that are on their way when a run is joined again are of the viewer that was left", async () => {
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

test("what comes in the same breath as the answer belongs to it", async () => {
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

test("who stays with the run that is there is not taken away by one that was asked for before", async () => {
  await following(2);
  const away = session.watch("rec-1");
  assert.equal(await session.watch("T"), true);
  socket.question("join", "rec-1").answer(joined("rec-1"));
  await away;
  assert.deepEqual([settings.theater.value, settings.recording.value, store.numRecords.value], ["T", null, 2]);
});

test("a run that was overtaken is left: nobody here will ever look at it", async () => {
  await following(1);
  const anew = session.startAnew();
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

test("a file that takes the place of a run is not told that the run did not answer", async () => {
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

test("buttons are free when nothing is under way any more, not when one of two things is done", async () => {
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

test("of two changes of the settings the second is sent when the first is done, and the prompts come back once", async () => {
  const { applyConfig } = await import("../../static/js/control/anew.js");
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

test("what was held and chosen in one run says nothing of a file that takes its place", async () => {
  await following(3);
  store.selected.value = { block: 1 };
  settings.seq.value = 0;
  session.open(file(2));
  assert.deepEqual([store.selected.value, settings.seq.value], [null, null]);
});
