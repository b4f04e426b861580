import assert from "node:assert/strict";
import { test } from "node:test";

import {
  connectSettings,
  markPlace,
  parseAddress,
  parseQuery,
  settings,
  TABLE,
  writeQuery,
} from "../../static/js/state/settings.js";

const initial = () => Object.fromEntries(Object.entries(TABLE).map(([name, row]) => [name, row.initial]));
const later = (ms) => new Promise((done) => setTimeout(done, ms));

test("a link and the settings are the same thing", () => {
  const values = { ...initial(), step: 17, layer: 3, top_p: 0.9, lang: "zh" };
  const found = parseQuery(writeQuery(values));
  for (const name of ["step", "layer", "top_p"]) assert.equal(found[name], values[name]);
});

test("values that do not parse and names that do not exist are left out", () => {
  assert.deepEqual(parseQuery("layer=two&strategy=magic&nothing=1&head=2&temperature="), { head: 2 });
});

test("a link of version 0.2 opens the region that it meant", () => {
  assert.deepEqual(parseQuery("region=score"), { region: "setup" });
  assert.equal(writeQuery({ ...initial(), ...parseQuery("region=score") }), "region=setup");
});

test("links keep the name and the values that the view mode has always had in them", () => {
  for (const [viewMode, written] of [
    ["intro", "look"],
    ["present", "room"],
    ["lesson", "learn"],
    ["teacher", "desk"],
  ]) {
    assert.deepEqual(parseQuery(`distance=${written}`), { viewMode });
    assert.equal(writeQuery({ ...initial(), viewMode }), `distance=${written}`);
  }
  assert.deepEqual(parseQuery("distance=bench"), { viewMode: "workspace" });
  assert.deepEqual(parseQuery("viewMode=intro&distance=intro"), {});
});

test("initial values are not written", () => {
  assert.equal(writeQuery(initial()), "");
});

test("a hash is read as a query is, and wins", () => {
  assert.deepEqual(parseAddress({ search: "?step=3&head=1", hash: "#step=12&sub=2" }), { step: 12, head: 1, sub: 2 });
  assert.deepEqual(parseAddress({ search: "?step=3", hash: "#region-stage" }), { step: 3 }); // an anchor is none
});

/** A browser's address and history, as far as the settings use them. */
function fakeBrowser(start) {
  const entries = [start];
  let at = 0;
  const listeners = [];
  const split = () => new URL(entries[at], "http://here/");
  return {
    entries,
    location: {
      get search() {
        return split().search;
      },
      get hash() {
        return split().hash;
      },
      pathname: "/",
    },
    history: {
      replaceState: (_state, _title, address) => (entries[at] = address),
      pushState: (_state, _title, address) => entries.splice(++at, Infinity, address),
    },
    events: { addEventListener: (_name, listener) => listeners.push(listener) },
    go(by) {
      at += by;
      for (const listener of listeners) listener();
    },
  };
}

test("a place on the page stays in the address", async () => {
  const browser = fakeBrowser("/?layer=1#region-stage");
  connectSettings(browser.location, browser.history, null, browser.events);
  await later(200);
  assert.match(browser.entries[0], /^\?.*layer=1.*#region-stage$/);
});

test("one canonical address; steps replace it, jumps leave an entry that Back returns to", async () => {
  const browser = fakeBrowser("/?theater=T&layer=1#step=12");
  connectSettings(browser.location, browser.history, null, browser.events);
  await later(200);
  const query = () => parseQuery(browser.entries.at(-1).slice(1));
  assert.ok(!browser.entries[0].includes("#"));
  assert.equal(query().step, 12);
  settings.step.value = 13; // a step by hand
  await later(200);
  assert.equal(browser.entries.length, 1);
  assert.equal(query().step, 13);
  markPlace(); // a jump
  settings.step.value = 40;
  // at once, since Back may be pressed before a timer runs
  assert.equal(browser.entries.length, 2);
  settings.theater.value = "U"; // the run is another one meanwhile
  settings.temperature.value = 0.5;
  await later(200);
  browser.go(-1);
  assert.equal(settings.step.value, 13);
  assert.equal(settings.layer.value, 1);
  assert.equal(settings.theater.value, "U"); // Back says where to look, not which run or how to sample
  assert.equal(settings.temperature.value, 0.5);
  browser.go(1);
  assert.equal(settings.step.value, 40);
});
