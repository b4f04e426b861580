// The timeline: a native range input over a painted line with the marks of what happened.

import { t } from "../i18n/index.js";
import { colours, themeVersion } from "../draw/colour.js";
import { prepare, usePainter } from "../draw/canvas.js";
import { goTo, log, numRecords, viewIndex } from "../model/store.js";
import { marksOf } from "../trace/metrics.js";
import { html } from "./html.js";

const INSET = 8; // half a thumb: where the range input's ends lie

export function Scrubber() {
  const ref = usePainter(
    () => [numRecords.value, viewIndex.value, themeVersion.value],
    (box) => paint(box.querySelector("canvas"), box.clientWidth, box.clientHeight),
  );
  const count = numRecords.value;
  return html`<div class="scrubber" ref=${ref}>
    <canvas aria-hidden="true"></canvas>
    <input
      id="scrubber"
      type="range"
      min="-1"
      max=${Math.max(0, count - 1)}
      step="1"
      value=${viewIndex.value}
      disabled=${count === 0}
      aria-label=${t("transport.scrubber")}
      aria-valuetext=${t("transport.position", { i: viewIndex.value + 1, n: count })}
      onInput=${(event) => goTo(Number(event.currentTarget.value))}
    />
  </div>`;
}

function paint(canvas, width, height) {
  const c = prepare(canvas, width, height);
  const palette = colours();
  const count = numRecords.value;
  const middle = Math.round(height / 2) + 3;
  const x = (index) => INSET + ((index + 1) / Math.max(1, count)) * (width - 2 * INSET);
  c.fillStyle = palette["line-2"];
  c.fillRect(INSET, middle - 1, width - 2 * INSET, 2);
  if (!count) return;
  c.fillStyle = palette["ink-2"];
  c.fillRect(INSET, middle - 1, x(viewIndex.value) - INSET, 2);
  const records = log.value?.records ?? [];
  records.forEach((record, index) => mark(c, palette, marksOf(record), x(index), middle));
  c.fillStyle = palette.ink;
  c.beginPath();
  c.arc(x(viewIndex.value), middle, 6, 0, 2 * Math.PI);
  c.fill();
}

function mark(c, palette, marks, x, middle) {
  if (marks.has("prefill")) {
    c.fillStyle = palette.prompt;
    c.fillRect(x - 1.5, middle - 5, 3, 10);
  }
  if (marks.has("submit")) {
    c.fillStyle = palette.prompt;
    triangle(c, x, middle - 13, 4, 1);
  }
  if (marks.has("share")) ring(c, x, middle - 10, palette.generated);
  if (marks.has("copy")) ring(c, x, middle - 10, palette.k);
  if (marks.has("evict")) {
    c.fillStyle = palette["ink-2"];
    c.fillRect(x - 2, middle + 6, 4, 1.5);
  }
  if (marks.has("preempt")) {
    c.fillStyle = palette.fault;
    triangle(c, x, middle - 8, 4.5, -1);
  }
  if (marks.has("finish")) {
    c.fillStyle = palette.generated;
    c.fillRect(x - 3, middle - 13, 6, 6);
  }
}

function triangle(c, x, y, size, direction) {
  c.beginPath();
  c.moveTo(x - size, y);
  c.lineTo(x + size, y);
  c.lineTo(x, y + direction * size * 1.4);
  c.fill();
}

function ring(c, x, y, colour) {
  c.strokeStyle = colour;
  c.lineWidth = 1.5;
  c.beginPath();
  c.arc(x, y, 3, 0, 2 * Math.PI);
  c.stroke();
}
