// Templates: drawings are disposed of when they are drawn again.

import assert from "node:assert/strict";
import { test } from "node:test";

import { html } from "../../static/js/kit/html.js";

test("no element is reused between renders, since it would keep its surroundings in memory", () => {
  const drawn = () => html`<section><p>always <b>the same</b></p>${1}</section>`;
  const still = () => html`<p>always <b>the same</b></p>`;
  for (const [one, other] of [
    [drawn(), drawn()],
    [drawn().props.children[0], drawn().props.children[0]],
    [still(), still()],
    [still().props.children[1], still().props.children[1]],
  ]) {
    assert.equal(one.type, other.type);
    assert.notEqual(one, other);
  }
});
