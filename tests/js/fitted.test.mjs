// A token in its box: whole, as large as fits, or not at all.

import assert from "node:assert/strict";
import { test } from "node:test";
import { fittedOnCanvas, fittedSize } from "../../static/js/kit/measure.js";

// letters of 8.5 px at 17 px: half an em, as most are
const measureText = (text) => ({ width: 8.5 * text.length });
globalThis.document = { createElement: () => ({ getContext: () => ({ measureText }) }), body: {} };
globalThis.getComputedStyle = () => ({ fontFamily: "test" });

test("a text fills its box up to its largest size", () => {
  assert.equal(fittedSize("wind", 100, 14), 14);
  assert.equal(fittedSize("wind", 24, 14), 12); // 4 letters of 6 px
  assert.equal(fittedSize("wind", 21, 14), 10.5);
});

test("illegible text is omitted", () => {
  assert.equal(fittedSize("wind", 18, 14), 9);
  assert.equal(fittedSize("wind", 17, 14), null); // 8.5 px
  assert.equal(fittedSize("Bandersnatch", 18, 14), null);
});

test("a canvas draws letters a little narrower before it leaves them out", () => {
  assert.equal(fittedOnCanvas("wind", 24, 14), 12, "not where they fit as they are");
  assert.equal(fittedOnCanvas("wind", 15, 14), 9); // 18 px of letters in 15
  assert.equal(fittedOnCanvas("wind", 14, 14), null); // in less than 80 % of their width
});
