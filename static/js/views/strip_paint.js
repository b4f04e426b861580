// Painting the strip: a pure function of the stage, the geometry and the motion's progress.

import { signal } from "../../vendor/signals/signals.js";
import { alpha, colours, niceCeiling, sequentialAt, themeVersion } from "../draw/colour.js";
import { hairline, roundRect } from "../draw/canvas.js";
import { motionAt } from "../draw/frame.js";
import { rows } from "../draw/strip.js";
import { wastePattern } from "../draw/texture.js";
import { VectorImage } from "../draw/vectors.js";
import { probabilityText, t } from "../i18n/index.js";
import { pointed } from "../model/store.js";
import { originOf, vectorOf } from "../trace/stage.js";

const images = { k: new VectorImage(), v: new VectorImage(), q: new VectorImage() };
const ranges = signal({}); // the largest magnitude of each row's scale, for its legend

export const rangesOf = () => ranges.value;

/** Top of the attention axis, or null. */
export function legendOf(stage) {
  return stage?.attention ? niceCeiling(stage.attention.max) : null;
}

export function paintStrip(c, { stage, layout, span, offset, width, height }) {
  const palette = colours();
  const at = rows(height);
  const progress = motionAt();
  c.save();
  c.translate(-offset, 0);
  paintBeams(c, palette, stage, layout, span, at);
  for (const kind of ["k", "v", "q"]) paintVectors(c, palette, stage, layout, span, at[kind], kind, progress);
  paintAttention(c, palette, stage, layout, span, at.attention, progress);
  paintPointed(c, palette, stage, layout, at);
  c.restore();
  hairline(c, 0, at.attention.y + at.attention.height, width, at.attention.y + at.attention.height, palette["line-2"]);
  paintQueryNote(c, palette, stage, layout, at.q, offset);
  const found = Object.fromEntries(Object.entries(images).map(([kind, image]) => [kind, image.range]));
  if (JSON.stringify(found) !== JSON.stringify(ranges.peek())) ranges.value = found;
}

/** A column lights when its key is read, as bright as its weight. */
function paintBeams(c, palette, stage, layout, [first, last], at) {
  const row = stage.attention;
  if (!row) return;
  const top = at.attention.y + at.attention.height;
  for (let p = Math.max(first, row.keyStart); p < Math.min(last, stage.query + 1); p++) {
    const share = row.weights[p - row.keyStart] / (row.max || 1);
    if (share < 0.02) continue;
    c.fillStyle = alpha(palette.q, 0.4 * share);
    c.fillRect(layout.x(p) - 1, top, layout.width + 2, at.v.y + at.v.height + 3 - top);
  }
}

function paintVectors(c, palette, stage, layout, [first, last], box, kind, progress) {
  const image = images[kind];
  const head = kind === "q" ? stage.head : stage.kvHead;
  image.reset(`${stage.log.header.created}/${stage.seq.seq_id}/${stage.layer}/${head}/${themeVersion.peek()}`);
  for (let p = first; p < last; p++) {
    const x = layout.x(p);
    const origin = originOf(stage, p);
    const vector = vectorOf(stage, kind, p);
    if (vector) {
      image.put(p, `${origin.record}/${origin.seq_id}/${origin.position}`, vector);
      const grown = origin.record === stage.index ? progress : 1;
      c.save();
      c.beginPath();
      c.rect(x, box.y, layout.width, box.height * grown);
      c.clip();
      image.draw(c, p, x, box.y, layout.width, box.height);
      c.restore();
    } else if (vector === undefined) {
      c.fillStyle = wastePattern(c, palette.line);
      c.fillRect(x, box.y, layout.width, box.height);
    } else if (kind !== "q" && !stage.released) {
      c.strokeStyle = palette["ink-3"];
      c.setLineDash([2, 3]);
      c.strokeRect(x + 0.5, box.y + 0.5, layout.width - 1, box.height - 1);
      c.setLineDash([]);
    }
  }
}

function paintAttention(c, palette, stage, layout, [first, last], box, progress) {
  const row = stage.attention;
  if (!row) return;
  const top = niceCeiling(row.max);
  const base = box.y + box.height;
  const labelled = largest(row, 3);
  c.font = "11px system-ui, sans-serif";
  c.textAlign = "center";
  let written = -Infinity; // right edge of the last figure: figures never overlap
  for (let p = Math.max(first, row.keyStart); p < Math.min(last, stage.query + 1); p++) {
    const weight = row.weights[p - row.keyStart];
    const height = Math.max(1, (box.height - 16) * (weight / top) * progress);
    const x = layout.x(p);
    c.fillStyle = sequentialAt(palette.sequential, 0.25 + 0.75 * (weight / top));
    roundRect(c, x + 2, base - height, layout.width - 4, height, 2);
    c.fill();
    if (labelled.has(p) || pointed.value?.position === p) {
      c.fillStyle = palette["ink-2"];
      const text = probabilityText(weight);
      const half = c.measureText(text).width / 2;
      const middle = Math.max(x + layout.width / 2, half);
      if (middle - half < written) continue;
      c.fillText(text, middle, base - height - 4);
      written = middle + half + 3;
    }
  }
}

function largest(row, count) {
  return new Set(
    Array.from(row.weights.keys())
      .sort((a, b) => row.weights[b] - row.weights[a])
      .slice(0, count)
      .map((i) => i + row.keyStart),
  );
}

function paintPointed(c, palette, stage, layout, at) {
  const position = pointed.value?.position;
  if (position === undefined || position >= layout.count) return;
  c.strokeStyle = palette.focus;
  c.lineWidth = 1.5;
  roundRect(c, layout.x(position) - 1.5, at.attention.y, layout.width + 3, at.q.y + at.q.height - at.attention.y + 2, 4);
  c.stroke();
}

/** The emptiness of the query row is a fact worth a word. */
function paintQueryNote(c, palette, stage, layout, box, offset) {
  const start = stage.entry ? stage.entry.start : stage.numFilled;
  const room = layout.x(Math.max(0, start - 1)) + layout.width - Math.max(0, offset);
  c.font = "12px system-ui, sans-serif";
  c.textAlign = "left";
  const text = t("stage.query_gone");
  if (start < 1 || c.measureText(text).width > room - 8) return;
  c.fillStyle = palette["ink-3"];
  c.fillText(text, 4, box.y + box.height / 2 + 4);
}
