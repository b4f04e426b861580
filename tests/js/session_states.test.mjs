// Every transition between the states of a session, driven by a socket of the test's own; and the drawing of them.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { t } from "../../static/js/i18n/words.js";
import { SHOWN_AS, TRANSITIONS } from "../../static/js/net/following.js";
import { file, joined, settings, socket, soon, store } from "./session_page.mjs";
import { speak } from "./words.mjs";

const { Session } = await import("../../static/js/net/session.js");

const UNKNOWN = { ok: false, error: { code: "unknown_theater", message: "there is no such theater" } };
console.error = () => {}; // a log that contradicts itself is told there as well

/** A session that has not begun, on a page that shows nothing and whose address names theater T. */
async function idle() {
  store.own.log.value = store.status.value = store.modelFacts.value = null;
  store.own.numRecords.value = 0;
  settings.theater.value = "T";
  settings.recording.value = null;
  globalThis.fetch = async () => ({ ok: false });
  return new Session();
}

async function connecting() {
  const session = await idle();
  await session.start();
  await soon();
  return session;
}

async function offline() {
  const session = await connecting();
  socket.question("join", "T").lose();
  await drop();
  return session;
}

async function live() {
  const session = await connecting();
  await join("T");
  return session;
}

async function lost() {
  const session = await live();
  await drop();
  return session;
}

async function recording() {
  const session = await live();
  session.watch("rec-1");
  await join("rec-1");
  return session;
}

/** A file, with no connection. */
async function shown() {
  const session = await idle();
  session.open(file(2));
  return session;
}

/** State after a recording was deleted; the page requests T again. */
async function removed() {
  const session = await recording();
  await closed("rec-1");
  return session;
}

async function gone() {
  const session = await live();
  await closed("T");
  return session;
}

const STATES = { idle, connecting, offline, live, lost, recording, file: shown, gone };

async function drop() {
  socket.handlers.disconnect("transport close");
  await soon();
}

async function back() {
  socket.handlers.connect();
  await soon();
}

async function closed(theater, cause = "deleted") {
  socket.handlers.closed({ theater, cause, detail: "", reason: "it was closed" });
  await soon();
}

async function join(theater) {
  socket.question("join", theater).answer(joined(theater));
  await soon();
}

async function refuse(theater) {
  socket.question("join", theater).answer(UNKNOWN);
  await soon();
}

async function watch(session, theater) {
  session.watch(theater);
  await join(theater);
}

const open = (session) => session.open(file(1));

/** "state event" -> how a session in that state comes to hear of that event; `from`: another way into the state. */
const WAYS = {
  "idle connect": { cause: (session) => session.start() },
  "idle show": { cause: open },
  "connecting follow": { cause: () => join("T") },
  "connecting replay": { cause: (session) => watch(session, "rec-1") },
  "connecting drop": { cause: drop },
  "connecting lose": { cause: () => refuse("T") },
  "connecting show": { cause: open },
  "offline follow": { cause: async () => (await back(), await join("T")) },
  "offline replay": { cause: async (session) => (await back(), await watch(session, "rec-1")) },
  "offline lose": { cause: async () => (await back(), await refuse("T")) },
  "offline show": { cause: open },
  "live replay": { cause: (session) => watch(session, "rec-1") },
  "live drop": { cause: drop },
  "live lose": { cause: () => closed("T") },
  "live reread": { cause: () => socket.records("T", 3, 1) }, // where the first belongs
  "live show": { cause: open },
  "lost follow": { cause: async () => (await back(), await join("T")) },
  "lost replay": { cause: async (session) => (await back(), await watch(session, "rec-1")) },
  "lost lose": { cause: async () => (await back(), await refuse("T")) },
  "lost show": { cause: open },
  "recording follow": { cause: (session) => watch(session, "T") },
  "recording connect": {
    cause: (session) => session.toLive(),
    from: async () => {
      const session = await shown();
      session.keep("rec-1"); // a file that the server keeps since: there is no connection
      return session;
    },
  },
  "recording remove": { cause: () => closed("rec-1") },
  "recording lose": { cause: async () => (await back(), await refuse("rec-1")) },
  "recording show": { cause: open },
  "file follow": { from: removed, cause: () => join("T") },
  "file replay": { from: removed, cause: (session) => watch(session, "rec-2") },
  "file connect": { cause: (session) => session.toLive() },
  "file keep": { cause: (session) => session.keep("rec-1") },
  "file lose": {
    cause: soon,
    from: async () => {
      const session = await recording();
      store.modelFacts.value = { live: false }; // a server that only shows recordings, and has no more
      globalThis.fetch = async () => ({ ok: true, json: async () => ({ recordings: [] }) });
      socket.handlers.closed({ theater: "rec-1", cause: "deleted", detail: "", reason: "it was deleted" });
      return session;
    },
  },
  "gone follow": {
    cause: async (session) => {
      session.startNewRun({});
      socket.question("create").answer(joined("N"));
      await soon();
    },
  },
  "gone replay": { cause: (session) => watch(session, "rec-1") },
  "gone show": { cause: open },
};

const PAIRS = Object.entries(TRANSITIONS).flatMap(([state, row]) =>
  Object.entries(row).map(([event, next]) => ({ state, event, next })),
);

test("each transition of the table is tried below, and no other", () => {
  assert.deepEqual(
    Object.keys(WAYS),
    PAIRS.map(({ state, event }) => `${state} ${event}`),
  );
});

for (const { state, event, next } of PAIRS)
  test(`${state}: ${event} leads to ${next}`, async () => {
    const { cause, from = STATES[state] } = WAYS[`${state} ${event}`];
    const session = await from();
    assert.equal(session.state, state);
    await cause(session);
    assert.equal(session.state, next);
    assert.equal(store.connection.value, SHOWN_AS[next]);
    if (["live", "lost", "recording"].includes(next)) assert.ok(session.run);
    else assert.equal(session.run, null);
  });

test("unlisted events leave the state unchanged", async () => {
  for (const reach of [recording, removed, gone]) {
    const session = await reach();
    const before = session.state;
    await drop();
    assert.equal(session.state, before);
  }
});

test("a recording is joined again with what is here of it when the server is back", async () => {
  const session = await recording();
  socket.records("rec-1", 0, 3);
  await drop();
  await back();
  const asked = socket.question("join", "rec-1");
  assert.deepEqual([asked.body.from, asked.body.epoch], [3, 0]);
  asked.answer(joined("rec-1"));
  await soon();
  assert.deepEqual([session.state, store.numRecords.value], ["recording", 3]);
});

test("a recording is read on when the server is stopped, and joined again when it is back", async () => {
  const session = await recording();
  await closed("rec-1", "shutdown");
  assert.equal(session.state, "recording");
  await drop();
  await back();
  await join("rec-1");
  assert.equal(session.state, "recording");
});

test("a new run that is asked for while the server is away begins when it is back, once", async () => {
  const session = await gone();
  await drop();
  const [begun, again] = [session.startAgain(), session.startAgain()];
  assert.equal(await again, false);
  await soon();
  assert.deepEqual([session.isStarting.value, socket.asked.length], [true, 0]);
  await back();
  socket.question("create").lose(); // away again, before it answered
  await drop();
  await soon();
  assert.deepEqual([session.isStarting.value, socket.asked.length], [true, 0]);
  await back();
  socket.question("create").answer(joined("N"));
  assert.equal(await begun, true);
  assert.deepEqual([session.state, session.isStarting.value, socket.asked.length], ["live", false, 0]);
});

test("a new run that was asked for is not begun any more when a file was opened meanwhile", async () => {
  const session = await gone();
  await drop();
  const begun = session.startAgain();
  session.open(file(2));
  assert.equal(await begun, false);
  assert.deepEqual([session.state, session.isStarting.value], ["file", false]);
});

test("the reason of a lost run is in the page's language", async () => {
  const session = await live();
  await closed("T", "shutdown");
  const told = () => t(session.problem.value.key, session.problem.value.values);
  speak("en");
  assert.equal(told(), "The server was stopped.");
  speak("zh");
  assert.equal(told(), "服务器已停止。");
  speak("en");
});

test("a closed connection has no effect", async () => {
  const session = await live();
  const left = socket;
  session.open(file(2));
  left.handlers.status({ theater: "T", epoch: 0, mode: "running", error: "late" });
  left.handlers.closed({ theater: "T", cause: "unused", detail: "", reason: "late" });
  left.handlers.connect();
  await soon();
  assert.deepEqual([session.state, store.status.value, store.numRecords.value], ["file", null, 2]);
});

test("the drawing has the transitions of the table", () => {
  const text = readFileSync(new URL("../../static/js/net/STATES.md", import.meta.url), "utf-8");
  const drawn = [...text.matchAll(/^ {4}(\w+) --> (\w+): (\w+)$/gm)].map(([, state, next, event]) => ({
    state,
    event,
    next,
  }));
  const sorted = (pairs) => pairs.map(({ state, event, next }) => `${state} ${event} ${next}`).sort();
  assert.deepEqual(sorted(drawn), sorted(PAIRS));
});
