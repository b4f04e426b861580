import assert from "node:assert/strict";
import { test } from "node:test";
import { KEYS, keyOf, rowFor } from "../../static/js/control/keyboard.js";
import { mainAction, nextTick, recordAtTenth } from "../../static/js/control/playback.js";
import {
  clusters,
  KINDS,
  marksIn,
  nearest,
  nearestOfAny,
  recordOfStep,
  tokensOf,
} from "../../static/js/core/events.js";
import { TraceLog } from "../../static/js/core/log.js";
import { SIGNS } from "../../static/js/panels/transport/scrubber.js";
import { announcer } from "../../static/js/panels/transport/sentence.js";
import { wholeLog } from "./histories.mjs";
import { header, records } from "./log_builder.mjs";
import { en } from "./words.mjs";

test("events are found by kind, and the index grows with the log", () => {
  const log = new TraceLog(header());
  const [submit, prefill, decode] = records();
  log.append(...submit);
  assert.deepEqual(marksIn(log).get("submit"), [0]);
  assert.deepEqual(marksIn(log).get("finish"), []);
  log.append(...prefill);
  log.append(...decode);
  assert.deepEqual(marksIn(log).get("prefill"), [1]);
  assert.deepEqual(marksIn(log).get("finish"), [2]);
  assert.deepEqual(tokensOf(log, 0), [1, 2]);
  assert.deepEqual(tokensOf(log, 7), []);
});

test("nearest looks strictly after or before", () => {
  const at = [3, 8, 20];
  assert.deepEqual(
    [-1, 3, 7, 20].map((i) => nearest(at, i, 1)),
    [3, 8, 8, null],
  );
  assert.deepEqual(
    [3, 4, 8, 99].map((i) => nearest(at, i, -1)),
    [null, 3, 3, 20],
  );
  assert.equal(nearest([], 5, 1), null);
  const log = wholeLog();
  assert.deepEqual(
    [-1, 0, 1, 2].map((i) => nearestOfAny(log, i, 1)),
    [0, 1, 2, null],
  );
  assert.deepEqual(
    [0, 2].map((i) => nearestOfAny(log, i, -1)),
    [null, 1],
  );
});

test("a step number leads to the record of that pass", () => {
  const log = wholeLog(); // a submission (0 passes), then steps 1 and 2
  assert.deepEqual(
    [0, 1, 2, 3].map((step) => recordOfStep(log, step)),
    [0, 1, 2, null],
  );
});

test("ten thousand marks are painted as at most one sign each few pixels", () => {
  const all = Array.from({ length: 10_000 }, (_, i) => i);
  const place = (i) => (i / 10_000) * 500;
  assert.deepEqual(clusters(all, place, 8), [[0, place(9999)]]); // no gap anywhere: one bar
  const everyHundredth = all.filter((i) => i % 400 === 0); // 20 px apart
  assert.equal(clusters(everyHundredth, place, 8).length, 25);
  const scattered = all.filter((i) => (i * 7919) % 10_007 < 5_000);
  assert.ok(clusters(scattered, place, 8).length <= Math.ceil(500 / 8));
});

test("every kind of event has a sign, and no two signs look alike", () => {
  assert.deepEqual(Object.keys(SIGNS).sort(), [...KINDS].sort());
  assert.equal(new Set(Object.values(SIGNS).map((sign) => sign.path)).size, KINDS.length);
});

test("the big button runs the engine only at the newest record of a live run", () => {
  const at = (state) => mainAction({ live: true, following: true, running: false, playing: 0, ...state });
  assert.equal(at({}), "run");
  assert.equal(at({ running: true }), "pause");
  assert.equal(at({ following: false }), "play");
  assert.equal(at({ following: false, running: true }), "play"); // the engine goes on; what is played is the log
  assert.equal(at({ live: false }), "play");
  assert.equal(at({ live: false, playing: 1 }), "stop");
  assert.equal(at({ playing: -1, following: false }), "stop");
});

test("beats keep the pace when a frame comes late, and forgive a long pause", () => {
  assert.equal(nextTick(0, 260, 250), 250); // 10 ms late: the next is due at 500, not 510
  assert.equal(nextTick(0, 5000, 250), 5000); // a hidden tab: no burst of nineteen moves
});

test("digits are tenths of the run", () => {
  assert.deepEqual(
    [0, 1, 5, 9].map((n) => recordAtTenth(n, 100)),
    [-1, 9, 49, 89],
  );
  assert.equal(recordAtTenth(5, 0), -1);
});

test("no key is taken twice, and the browser's own are left alone", () => {
  const keys = KEYS.flatMap((row) => row.keys);
  assert.equal(new Set(keys).size, keys.length);
  for (const key of ["F5", "F11", "Tab", "Enter", "Backspace"]) assert.ok(!keys.includes(key), key);
  for (const row of KEYS) assert.ok(row.text in en, row.text);
});

const target = (matches = []) => ({ closest: (selector) => (matches.some((m) => selector.includes(m)) ? {} : null) });
const press = (key, more = {}) => ({
  key,
  shiftKey: false,
  ctrlKey: false,
  metaKey: false,
  altKey: false,
  isComposing: false,
  target: target(),
  ...more,
});

test("Shift tells letters and arrows apart, and nothing else", () => {
  assert.equal(keyOf(press("N", { shiftKey: true })), "Shift+n");
  assert.equal(keyOf(press("N")), "n"); // Caps Lock
  assert.equal(keyOf(press("ArrowLeft", { shiftKey: true })), "Shift+ArrowLeft");
  assert.equal(keyOf(press("?", { shiftKey: true })), "?");
  assert.equal(keyOf(press("5", { shiftKey: true })), "5"); // digits need Shift on some keyboards
});

test("a presenter's remote goes on, back and black", () => {
  assert.equal(rowFor(press("PageDown")).text, "key.next");
  assert.equal(rowFor(press("PageUp")).text, "key.previous");
  assert.equal(rowFor(press("b")).text, "key.black");
});

test("text fields, lists and shortcuts keep their keys", () => {
  assert.equal(rowFor(press("n", { target: target(["textarea"]) })), null);
  assert.equal(rowFor(press("Escape", { target: target(["textarea"]) })).text, "key.escape");
  assert.equal(rowFor(press(" ", { target: target(["button"]) })), null);
  assert.equal(rowFor(press("ArrowLeft", { target: target(["[data-arrows]"]) })), null);
  assert.equal(rowFor(press("n", { target: target(["[data-arrows]"]) })).text, "key.next_event");
  assert.equal(rowFor(press("r", { ctrlKey: true })), null);
  assert.equal(rowFor(press("n", { isComposing: true })), null);
});

/** A clock that is turned by hand. */
function handClock() {
  let now = 0;
  let timers = [];
  return {
    performance: { now: () => now },
    setTimeout: (run, ms) => timers.push({ run, at: now + ms, id: timers.length }) && timers.at(-1),
    clearTimeout: (timer) => (timers = timers.filter((t) => t !== timer)),
    turn(ms) {
      const end = now + ms;
      for (;;) {
        const due = timers.filter((t) => t.at <= end).sort((a, b) => a.at - b.at)[0];
        if (!due) break;
        now = due.at;
        timers = timers.filter((t) => t !== due);
        due.run();
      }
      now = end;
    },
  };
}

test("fast runs announce few sentences, and always the last", () => {
  const clock = handClock();
  const said = [];
  const announce = announcer((text) => said.push(text), { quiet: 500, longest: 5000, clock });
  for (let step = 0; step < 160; step++) {
    announce(`step ${step}`);
    clock.turn(62.5); // 16 a second, for 10 seconds
  }
  assert.ok(said.length >= 1 && said.length <= 2, said.join());
  clock.turn(1000);
  assert.equal(said.at(-1), "step 159");
  const before = said.length;
  announce("alone");
  clock.turn(499);
  assert.equal(said.length, before);
  clock.turn(1);
  assert.equal(said.at(-1), "alone");
});
