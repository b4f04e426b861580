// What the transport drives: the page's own run, or lanes in lockstep in its place, and how one comes back.

import assert from "node:assert/strict";
import { test } from "node:test";

import { signal } from "../../static/vendor/signals/signals.js";
import { header, op, recordsOf } from "./log_builder.mjs";

globalThis.matchMedia = () => ({ matches: false, addEventListener: () => {} });
const { TraceLog } = await import("../../static/js/core/log.js");
const playback = await import("../../static/js/control/playback.js");
const { player } = await import("../../static/js/control/player.js");
const { show, showOwn } = await import("../../static/js/control/shown.js");
const { LanesPlayer } = await import("../../static/js/runs/player.js");
const { settings } = await import("../../static/js/state/settings.js");
const store = await import("../../static/js/state/store.js");

const soon = (ms = 0) => new Promise((done) => setTimeout(done, ms));

/** A log of `outputs` steps after its submission. */
function logOf(outputs) {
  const log = new TraceLog(header());
  const steps = Array.from({ length: outputs }, (_, i) => ({
    batch: [op.entry(0, i ? "decode" : "prefill", i, [1])],
    ops: [
      ...(i ? [] : [op.admit(0)]),
      ...(i % 2 ? [] : [op.allocate(0, i / 2, i / 2)]),
      op.write(0, i, 1),
      op.sample(0),
    ],
  }));
  for (const record of recordsOf([{ kind: "submit", ops: [op.submit(0, [1], 9)] }, ...steps])) log.append(record);
  return log;
}

/** Lanes that do what they are asked at once. */
function fakeLanes(...steps) {
  const asked = [];
  const lanes = {
    names: steps.map((_, i) => `lane${i}`),
    recorded: null,
    theaters: { lanes: [] },
    logs: signal(null),
    numSteps: signal(0),
    phase: signal("idle"),
    asked: signal(null),
    prepare: (wish) => {
      asked.push(["prepare", wish]);
      lanes.asked.value = wish;
      lanes.logs.value ??= steps.map(logOf);
      lanes.phase.value = "ready";
    },
    step: async (wish) => (asked.push(["step", wish]), (lanes.numSteps.value += 1), true),
    run: async (wish) => asked.push(["run", wish]),
    restart: async (wish) => asked.push(["restart", wish]),
    reset: () => asked.push(["reset"]),
    pause: () => asked.push(["pause"]),
    leave: () => asked.push(["leave"]),
  };
  return { lanes, asked };
}

const wish = { prompts: ["a"], sampling: {}, configs: {} };

/** The page follows a live run of four records, and looks at the second. */
function live() {
  showOwn();
  store.own.log.value = logOf(3);
  store.own.numRecords.value = 4;
  store.connection.value = "live";
  settings.step.value = 1;
  settings.sub.value = 2;
  settings.seq.value = 0;
}

test("another run takes the place of the page's own, which is found again where it was left", () => {
  live();
  store.selected.value = { block: 0 };
  const other = { ...store.own, log: signal(logOf(1)), numRecords: signal(2) };
  show(other);
  assert.deepEqual(
    [store.log.value, store.viewIndex.value, store.following.value, settings.seq.value, store.selected.value],
    [other.log.value, 1, true, null, null],
  );
  store.own.numRecords.value = 3; // goes on unseen
  assert.equal(store.numRecords.value, 2);
  store.goTo(0);
  showOwn();
  assert.deepEqual(
    [store.log.value, settings.step.value, settings.sub.value, settings.seq.value],
    [store.own.log.value, 1, 2, 0],
  );
});

test("while lanes are shown the transport's step is one of theirs; then it is the page's own again", async () => {
  live();
  const own = player.value;
  const { lanes, asked } = fakeLanes(2, 3);
  const mine = new LanesPlayer(lanes, { wish: () => wish, told: () => "one sentence" });
  const leave = mine.enter();
  await soon();
  assert.deepEqual(asked, [["prepare", wish]]);
  assert.equal(store.log.value, lanes.logs.value[1]); // the last one
  assert.deepEqual([store.numRecords.value, player.value.say(), player.value.forks], [1, "one sentence", false]);
  assert.equal(playback.main.value, "run");
  await playback.next();
  assert.deepEqual([asked.at(-1), store.numRecords.value, mine.shownStep.value], [["step", wish], 2, 1]);
  await player.value.reset();
  assert.deepEqual(asked.at(-1), ["restart", wish]);
  playback.doMain();
  assert.deepEqual(asked.at(-1), ["run", wish]);
  lanes.phase.value = "running";
  assert.equal(playback.main.value, "pause");
  lanes.phase.value = "done"; // nothing is left to compute: what is there is played
  assert.equal(playback.main.value, "play");
  leave();
  assert.deepEqual([asked.at(-1), player.value, store.log.value], [["leave"], own, store.own.log.value]);
  assert.deepEqual([settings.step.value, settings.sub.value], [1, 2]);
});

test("the moment that is looked at is a step of every lane, whichever is on the stage", async () => {
  live();
  const { lanes } = fakeLanes(2, 4);
  const mine = new LanesPlayer(lanes, { wish: () => wish, told: () => "" });
  const leave = mine.enter();
  await soon();
  lanes.numSteps.value = 4;
  assert.deepEqual([store.numRecords.value, mine.shownStep.value], [5, 4]);
  mine.look(1);
  assert.deepEqual([store.viewIndex.value, mine.shownStep.value], [1, 1]);
  mine.choose(0);
  assert.deepEqual([store.log.value, store.viewIndex.value, mine.shownStep.value], [lanes.logs.value[0], 1, 1]);
  mine.look(0);
  assert.deepEqual([store.viewIndex.value, mine.shownStep.value], [0, 0]);
  mine.look(4); // this lane took two steps, and stays at its last
  assert.deepEqual([store.following.value, store.viewIndex.value, mine.shownStep.value], [true, 2, 4]);
  mine.choose(1);
  assert.deepEqual([store.viewIndex.value, mine.shownStep.value], [4, 4]);
  leave();
});

test("another prompt is asked of lanes of which nothing is computed; else the setup offers to begin anew", async () => {
  live();
  const { lanes, asked } = fakeLanes(2, 2);
  const text = signal("a");
  const mine = new LanesPlayer(lanes, { wish: () => ({ ...wish, prompts: [text.value] }), told: () => "" });
  const leave = mine.enter();
  await soon();
  text.value = "ab";
  await soon(450); // after a rest of typing
  assert.deepEqual(
    asked.map(([what, { prompts }]) => [what, prompts[0]]),
    [
      ["prepare", "a"],
      ["prepare", "ab"],
    ],
  );
  assert.equal(player.value.differs(), false);
  lanes.numSteps.value = 1;
  text.value = "abc";
  assert.equal(player.value.differs(), true);
  leave();
});
