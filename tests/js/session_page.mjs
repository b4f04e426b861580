// The page's side of a run in Node: a server that answers when the test says, late, out of turn or not at all.

import assert from "node:assert/strict";
import { crc32 } from "node:zlib";

import { header, oneRequest } from "./log_builder.mjs";

const OUTPUTS = 4;
const RECORDS = oneRequest(OUTPUTS, { finishes: false });

/** A socket that keeps what is asked until the test answers it. */
class Socket {
  constructor({ transports }) {
    this.io = { opts: { transports }, engine: { transport: { name: "websocket" } } };
    this.handlers = {};
    this.asked = []; // {event, body, answer(map), lose()}
    setTimeout(() => this.handlers.connect());
  }

  on(event, handler) {
    this.handlers[event] = handler;
  }

  timeout() {
    return {
      emit: (event, body, told) =>
        this.asked.push({
          event,
          body,
          answer: (map) => told(null, { ok: true, ...map }),
          lose: () => told(new Error("away")),
        }),
    };
  }

  disconnect() {
    for (const { lose } of this.asked.splice(0)) lose();
    this.handlers.disconnect("io client disconnect");
  }

  /** The oldest question of this kind that has no answer yet. */
  question(event, theater) {
    const at = this.asked.findIndex(
      (one) => one.event === event && (theater === undefined || one.body.theater === theater),
    );
    assert.notEqual(at, -1, `nobody asks to ${event} ${theater ?? ""}`);
    return this.asked.splice(at, 1)[0];
  }

  records(theater, first, count, epoch = 0) {
    this.handlers.records({ theater, epoch, first, records: RECORDS.slice(first, first + count), captures: null });
  }
}

/** The socket of the page, as it is now. */
export let socket;
globalThis.io = (options) => (socket = new Socket(options));
globalThis.fetch = async () => ({ ok: false });
const wait = globalThis.setTimeout;
globalThis.setTimeout = (action, ms) => (ms > 1000 ? wait(action, ms).unref() : wait(action, ms)); // what leaves after a while holds nobody up

export const { session } = await import("../../static/js/net/session.js");
export const { command } = await import("../../static/js/net/commands.js");
const { rememberSession: rememberRun } = await import("../../static/js/net/created_sessions.js");
export const store = await import("../../static/js/state/store.js");
export const { settings } = await import("../../static/js/state/settings.js");

export const later = (ms) => new Promise((done) => wait(done, ms));
export const soon = () => later(5);
export const joined = (theater, more = {}) => ({
  theater,
  epoch: 0,
  header: header(),
  num_records: RECORDS.length,
  from: 0,
  status: { theater, mode: "paused", error: null },
  ...more,
});
export const errors = () => store.toasts.value.filter(({ tone }) => tone === "error").map(({ text }) => text);

/** A file with the first `count` records. */
export function file(count) {
  const frame = (kind, payload) => {
    const head = new DataView(new ArrayBuffer(9));
    head.setUint8(0, kind);
    head.setUint32(1, payload.length, true);
    head.setUint32(5, crc32(payload), true);
    return Buffer.concat([Buffer.from(head.buffer), payload]);
  };
  return Buffer.concat([
    Buffer.from("KVTRACE\x01", "latin1"),
    frame(1, header()),
    ...RECORDS.slice(0, count).map((record) => frame(2, record)),
  ]);
}

/** The page without a run, on its way to theater `wanted` or to one of its own. */
export async function coming(wanted, { isOwn = true } = {}) {
  if (isOwn) rememberRun(wanted);
  session.open(file(1)); // whatever was followed before
  settings.theater.value = wanted;
  store.toasts.value = [];
  session.toLive();
  await soon();
}

/** A page that follows theater T, which has `count` records. */
export async function following(count) {
  await coming("T");
  socket.question("join", "T").answer(joined("T"));
  socket.records("T", 0, count);
  await soon();
  assert.deepEqual([store.connection.value, store.numRecords.value], ["live", count]);
}
