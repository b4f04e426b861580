// The run that a page follows, against a server whose answers come when the test says: late, out of turn, or not at all.

import assert from "node:assert/strict";
import { test } from "node:test";

import { header, op, recordsOf } from "./log_builder.mjs";

const OUTPUTS = 4;
const RECORDS = recordsOf([
  { kind: "submit", ops: [op.submit(0, [1], OUTPUTS)] },
  ...Array.from({ length: OUTPUTS }, (_, i) => ({
    batch: [op.entry(0, i ? "decode" : "prefill", i, [1])],
    ops: [...(i === 0 ? [op.admit(0)] : []), ...(i % 2 === 0 ? [op.allocate(0, i / 2, i / 2)] : []), op.write(0, i, 1), op.sample(0)],
  })),
]);

/** A socket that keeps what is asked until the test answers it. */
class Socket {
  constructor() {
    this.handlers = {};
    this.asked = []; // {event, body, answer(map), lose()}
    setTimeout(() => this.handlers.connect());
  }

  on(event, handler) {
    this.handlers[event] = handler;
  }

  timeout() {
    return { emit: (event, body, told) => this.asked.push({ event, body, answer: (map) => told(null, { ok: true, ...map }), lose: () => told(new Error("away")) }) };
  }

  disconnect() {
    for (const { lose } of this.asked.splice(0)) lose();
    this.handlers.disconnect("io client disconnect");
  }

  /** The oldest question of this kind that has no answer yet. */
  question(event, theater) {
    const at = this.asked.findIndex((one) => one.event === event && (theater === undefined || one.body.theater === theater));
    assert.notEqual(at, -1, `nobody asks to ${event} ${theater ?? ""}`);
    return this.asked.splice(at, 1)[0];
  }

  records(theater, first, count, epoch = 0) {
    this.handlers.records({ theater, epoch, first, records: RECORDS.slice(first, first + count), captures: null });
  }
}

let socket;
globalThis.io = () => (socket = new Socket());
globalThis.fetch = async () => ({ ok: false });
const wait = globalThis.setTimeout;
globalThis.setTimeout = (action, ms) => (ms > 1000 ? wait(action, ms).unref() : wait(action, ms)); // what leaves after a while holds nobody up

const session = await import("../../static/js/net/session.js");
const store = await import("../../static/js/model/store.js");
const { settings } = await import("../../static/js/model/settings.js");

const soon = () => new Promise((done) => wait(done, 5));
const joined = (theater, more = {}) => ({ theater, epoch: 0, header: header(), num_records: RECORDS.length, from: 0, status: { theater, mode: "paused", error: null }, ...more });
const errors = () => store.toasts.value.filter(({ tone }) => tone === "error").map(({ text }) => text);

const { crc32 } = await import("node:zlib");

/** A file with the first `count` records. */
function file(count) {
  const frame = (kind, payload) => {
    const head = new DataView(new ArrayBuffer(9));
    head.setUint8(0, kind);
    head.setUint32(1, payload.length, true);
    head.setUint32(5, crc32(payload), true);
    return Buffer.concat([Buffer.from(head.buffer), payload]);
  };
  return Buffer.concat([Buffer.from("KVTRACE\x01", "latin1"), frame(1, header()), ...RECORDS.slice(0, count).map((record) => frame(2, record))]);
}

/** The page without a run, on its way to theater `wanted` or to one of its own. */
async function coming(wanted) {
  session.open(file(1)); // whatever was followed before
  settings.theater.value = wanted;
  store.toasts.value = [];
  session.toLive();
  await soon();
}

/** A page that follows theater T, which has `count` records. */
async function following(count) {
  await coming("T");
  socket.question("join", "T").answer(joined("T"));
  socket.records("T", 0, count);
  await soon();
  assert.deepEqual([store.connection.value, store.numRecords.value], ["live", count]);
}

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

test("a file that takes the place of a run is not told that the run did not answer", async () => {
  await following(2);
  const step = session.command("step", {});
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

test("what was held and chosen in one run says nothing of a file that takes its place", async () => {
  await following(3);
  store.selected.value = { block: 1 };
  settings.seq.value = 0;
  session.open(file(2));
  assert.deepEqual([store.selected.value, settings.seq.value], [null, null]);
});
