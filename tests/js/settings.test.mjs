import assert from "node:assert/strict";
import { test } from "node:test";

import { parseQuery, TABLE, writeQuery } from "../../static/js/model/settings.js";

test("a link and the settings are the same thing", () => {
  const values = { ...Object.fromEntries(Object.entries(TABLE).map(([n, row]) => [n, row.initial])), step: 17, layer: 3, top_p: 0.9, lang: "zh" };
  const found = parseQuery(writeQuery(values));
  for (const name of ["step", "layer", "top_p"]) assert.equal(found[name], values[name]);
});

test("values that do not parse and names that do not exist are left out", () => {
  assert.deepEqual(parseQuery("layer=two&strategy=magic&nothing=1&head=2&temperature="), { head: 2 });
});

test("initial values are not written", () => {
  assert.equal(writeQuery(Object.fromEntries(Object.entries(TABLE).map(([n, row]) => [n, row.initial]))), "");
});
