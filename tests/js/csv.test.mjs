import assert from "node:assert/strict";
import { test } from "node:test";

import { csvText } from "../../static/js/core/csv.js";

test("a text that a spreadsheet would run has an apostrophe in front, a number has none", () => {
  for (const start of ["=", "+", "-", "@", "\t", "＝", "＋", "－", "＠"])
    assert.equal(csvText([[`${start}1+1`]]), `'${start}1+1\r\n`);
  for (const start of ["\r", "\n"]) assert.equal(csvText([[`${start}=1`]]), `"'${start}=1"\r\n`);
  assert.equal(
    csvText([['=HYPERLINK("x")', -1.5, [-1, 2e-7], null, undefined, true, "a=1"]]),
    `"'=HYPERLINK(""x"")",-1.5,-1 2e-7,,,true,a=1\r\n`,
  );
  assert.equal(csvText([[["=1", 2]]]), "'=1 2\r\n"); // a list of what is no number is a text
});
