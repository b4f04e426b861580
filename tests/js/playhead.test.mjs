import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { TraceLog } from "../../static/js/core/log.js";
import * as moment from "../../static/js/state/playhead.js";
import { settings } from "../../static/js/state/settings.js";
import * as store from "../../static/js/state/store.js";
import { batch, effect } from "../../static/vendor/signals/signals.js";
import { header, records } from "./log_builder.mjs";

const { PHASES, motionBetween, phaseProgress, positionAt } = moment;
const EVEN = [1, 1, 1, 1, 1, 1];
const isStep = (index) => index >= 1; // record 0 is a submission

/** The page follows a log of a submission, a prefill and a decode step; `count` of them have come. */
function showLog(count = 3) {
  const log = new TraceLog(header());
  for (const [bytes, capture] of records().slice(0, count)) log.append(bytes, capture);
  batch(() => {
    store.own.log.value = log;
    store.own.numRecords.value = count;
    store.backToLive();
  });
  return log;
}

moment.followPlayhead();

/** Let a motion run to its end, sampled every 10 ms; [index, at as the sum of the phases] at each frame. */
function play() {
  const frames = [];
  for (let now = 0; moment.moving.value; now += 10) {
    moment.advance(now);
    const all = moment.phasesNow();
    frames.push([moment.drawnIndex.value, PHASES.reduce((sum, name) => sum + all[name], 0)]);
    assert.ok(frames.length < 200, "the motion does not end");
  }
  return frames;
}

beforeEach(() => {
  moment.reducedMotion.value = false;
  settings.motion.value = true;
  store.status.value = null;
  moment.enterNextAt(null);
  showLog();
  play();
});

test("phases come one after the other, each eased, and all are 1 when the record is whole", () => {
  for (let at = 0; at <= 6; at += 0.1) {
    const values = Object.values(phaseProgress(at));
    values.forEach((value, i) => {
      assert.ok(value >= 0 && value <= 1);
      if (i > 0 && value > 0) assert.equal(values[i - 1], 1);
    });
  }
  assert.deepEqual(Object.values(phaseProgress(6)), [1, 1, 1, 1, 1, 1]);
  assert.ok(phaseProgress(2.5).qkv > 0.5); // fast, then a pause
});

test("a motion backwards passes the same places as forwards, in the other order", () => {
  for (const shares of [EVEN, [0.6, 0, 1, 1, 1.4, 1]])
    for (const t of [0.01, 0.2, 0.37, 0.5, 0.9])
      assert.ok(Math.abs(positionAt(0, 6, t, shares) - positionAt(6, 0, 1 - t, shares)) < 1e-9);
  assert.equal(positionAt(0, 6, 0, EVEN), 0);
  assert.equal(positionAt(0, 6, 0.5, EVEN), 3);
  assert.equal(positionAt(2, 3, 0.5, EVEN), 2.5);
  assert.equal(positionAt(6, 0, 1, EVEN), 0);
});

/** The motion between two places, each a record and where in it. */
const between = ([from, at], [to, then]) => motionBetween({ index: from, at }, { index: to, at: then }, isStep);

test("forward the next record is drawn from nothing; back the later one is drawn until it is gone", () => {
  assert.deepEqual(between([4, 6], [5, 6]), { index: 5, from: 0, to: 6, ms: 900 });
  assert.deepEqual(between([5, 6], [4, 6]), { index: 5, from: 6, to: 0, ms: 900 });
  assert.deepEqual(between([5, 2], [5, 3]), { index: 5, from: 2, to: 3, ms: 350 });
  assert.deepEqual(between([5, 6], [6, 1]), { index: 6, from: 0, to: 1, ms: 350 });
  assert.equal(between([5, 6], [7, 6]), null); // farther than a step: at once
  assert.equal(between([5, 6], [4, 3]), null);
});

test("records that are not steps are passed over", () => {
  assert.deepEqual(between([-1, 6], [1, 6]), { index: 1, from: 0, to: 6, ms: 900 });
  assert.deepEqual(between([1, 6], [-1, 6]), { index: 1, from: 6, to: 0, ms: 900 });
  assert.equal(between([-1, 6], [0, 6]), null);
});

test("going back, the record drawn stays the later one until the motion ends; what was asked for is known at once", () => {
  store.goTo(1);
  assert.equal(store.viewIndex.value, 1);
  assert.equal(moment.drawnIndex.value, 2);
  assert.equal(store.state.value.index, 2);
  const frames = play();
  assert.ok(frames.length > 50);
  assert.deepEqual(
    frames.slice(0, -1).map(([index]) => index),
    Array(frames.length - 1).fill(2),
  );
  for (let i = 1; i < frames.length - 1; i++) assert.ok(frames[i][1] <= frames[i - 1][1]);
  assert.deepEqual(frames.at(-1), [1, 6]);
  assert.equal(store.state.value.index, 1);
});

test("a run played slowly is drawn slowly, and the status follows its sub-steps; a single step has none to read", () => {
  const walked = (speed) => {
    store.goTo(1);
    play();
    moment.playSpeed.value = speed;
    store.backToLive();
    const subs = [];
    for (let now = 0; moment.moving.value; now += 10) {
      moment.advance(now);
      if (subs.at(-1) !== moment.playedSub.value) subs.push(moment.playedSub.value);
    }
    moment.playSpeed.value = null;
    return subs;
  };
  assert.deepEqual(walked(null), [null]);
  assert.deepEqual(walked(4), [null]);
  const slow = walked(0.25);
  assert.equal(slow.at(-1), null);
  assert.deepEqual(
    slow.slice(0, -1).map((sub) => PHASES[sub]),
    ["schedule", "qkv", "write", "attend", "sample"],
  );
});

test("a motion can be turned round where it is", () => {
  store.goTo(1);
  moment.advance(0);
  moment.advance(400);
  const before = moment.phasesNow();
  store.backToLive();
  moment.advance(1000);
  assert.equal(moment.drawnIndex.value, 2);
  assert.deepEqual(moment.phasesNow(), before);
  assert.deepEqual(play().at(-1), [2, 6]);
});

test("sub-steps walk through a record and on to the next; records that are no steps have none", () => {
  store.goTo(0);
  play();
  const walked = [];
  while (moment.stepPlayhead(1)) {
    play();
    walked.push([store.viewIndex.value, moment.viewSub.value]);
  }
  const whole = (index) => [0, 1, 2, 3, 4, 5].map((sub) => [index, sub]);
  assert.deepEqual(walked, [...whole(1), ...whole(2)]);
  const back = [];
  while (moment.stepPlayhead(-1)) back.push([store.viewIndex.value, moment.viewSub.value]);
  assert.deepEqual(back, [...whole(2).slice(0, -1).reverse(), ...whole(1).reverse(), [0, null], [-1, null]]);
});

test("a sub-step rests with its phase done and the later ones not begun, and is in the link", () => {
  moment.movePlayhead(2, 2);
  play();
  assert.deepEqual(moment.phasesNow(), { schedule: 1, allocate: 1, qkv: 1, write: 0, attend: 0, sample: 0 });
  assert.deepEqual([settings.step.value, settings.sub.value], [2, 2]);
  store.goTo(2);
  assert.equal(settings.sub.value, null);
});

test("the next record can be entered at its first sub-step", () => {
  const log = showLog(2);
  play();
  moment.enterNextAt(0);
  log.append(...records()[2]);
  store.own.numRecords.value = 3;
  assert.deepEqual([store.viewIndex.value, moment.viewSub.value], [2, 0]);
  assert.deepEqual(play().at(-1), [2, 1]);
  assert.equal(store.following.value, false);
});

test("without movement everything is shown at once", () => {
  for (const still of [() => (moment.reducedMotion.value = true), () => (settings.motion.value = false)]) {
    still();
    store.goTo(1);
    assert.equal(moment.moving.value, false);
    assert.deepEqual([moment.drawnIndex.value, moment.phasesNow().sample], [1, 1]);
    store.backToLive();
  }
});

test("a fast run does not move", () => {
  store.goTo(1);
  play();
  store.status.value = { mode: "running", speed: 16 };
  store.backToLive();
  assert.equal(moment.moving.value, false);
});

test("a new log is shown at once, whatever moved before", () => {
  store.goTo(1);
  assert.equal(moment.moving.value, true);
  showLog(1);
  assert.equal(moment.moving.value, false);
  assert.equal(store.state.value.index, 0);
});

test("a subscriber of one phase is not called for the others", () => {
  let woken = { attend: 0, all: 0 };
  const stop = [
    effect(() => (moment.phase("attend"), (woken.attend += 1))),
    effect(() => (moment.phases(), (woken.all += 1))),
  ];
  store.goTo(1);
  play();
  woken = { attend: 0, all: 0 };
  store.backToLive();
  const frames = play();
  const during = frames.filter(([, at]) => at >= 4 && at <= 5).length;
  assert.ok(woken.all >= frames.length);
  assert.ok(woken.attend > 5 && woken.attend <= during + 2, `${woken.attend} of ${during}`);
  stop.forEach((end) => end());
});
