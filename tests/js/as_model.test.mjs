import assert from "node:assert/strict";
import { test } from "node:test";

import { factorsOf, PRESETS } from "../../static/js/state/options.js";

test("the shown factors of every preset multiply to Python's bytes", () => {
  assert.ok(PRESETS.length >= 10);
  for (const preset of PRESETS) {
    const product = factorsOf(preset).reduce((all, factor) => all * factor, 1);
    assert.equal(product, preset.kv_bytes_per_token, preset.id);
  }
  const gpt3 = PRESETS.find(({ id }) => id === "gpt-3");
  assert.equal((16 * 1024 * gpt3.kv_bytes_per_token) / 2 ** 30, 72); // GiB
});
