// The driver of the page: giving it back restores the driver before.

import assert from "node:assert/strict";
import { test } from "node:test";
import { show } from "../../static/js/control/drawn.js";
import { next } from "../../static/js/control/playback.js";
import { player, playerBelow, takeOver } from "../../static/js/control/player.js";
import { own, shownRun } from "../../static/js/state/run.js";

/** A driver whose run is at its end, and what it was asked for. */
function driver() {
  const asked = [];
  return { asked, live: () => false, running: () => false, step: async () => asked.push("step") };
}

test("a race in a lesson gives the page back to the lesson, and the lesson to the page", () => {
  const [page, lesson, race] = [player.value, driver(), driver()];
  const leaveLesson = takeOver(lesson);
  const leaveRace = takeOver(race);
  assert.equal(player.value, race);
  leaveRace();
  assert.equal(player.value, lesson);
  leaveLesson();
  assert.equal(player.value, page);
});

test("a finished lesson is removed below a race", () => {
  const [page, lesson, race] = [player.value, driver(), driver()];
  const leaveLesson = takeOver(lesson);
  const leaveRace = takeOver(race);
  leaveLesson();
  assert.equal(player.value, race);
  assert.equal(playerBelow(), null);
  leaveRace();
  leaveRace();
  assert.equal(player.value, page);
});

test("a run leaves the stage with its driver, also after a change of drivers", () => {
  for (const first of ["lesson", "race"]) {
    const [lesson, race] = [driver(), { ...driver(), shown: { ...own } }];
    const leave = first === "race" ? [takeOver(race), takeOver(lesson)] : [takeOver(lesson), takeOver(race)];
    const [leaveLesson, leaveRace] = first === "race" ? leave.toReversed() : leave;
    show(race.shown);
    assert.equal(shownRun.value, race.shown);
    leaveRace();
    assert.equal(shownRun.value, own, `${first} came first`);
    leaveLesson();
  }
});

test("a driver without a run of its own leaves the stage unchanged when it ends", () => {
  const [lesson, race] = [driver(), { ...driver(), shown: { ...own } }];
  const [leaveRace, leaveLesson] = [takeOver(race), takeOver(lesson)];
  show(race.shown);
  leaveLesson();
  assert.deepEqual([player.value, shownRun.value], [race, race.shown]);
  leaveRace();
  assert.equal(shownRun.value, own);
});

test("at the end of the lanes a presenter's key goes on with the lesson", async () => {
  const [lesson, race] = [driver(), driver()];
  const leave = [takeOver(lesson), takeOver(race)];
  await next();
  assert.deepEqual([lesson.asked, race.asked], [["step"], []]);
  leave[1]();
  await next();
  assert.deepEqual(lesson.asked, ["step"], "its own run is over: there is nothing beneath it");
  leave[0]();
});
