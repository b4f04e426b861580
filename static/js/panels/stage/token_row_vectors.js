// Painting of the token row's vectors: cached ones, the ones computed and written in this step, and missing ones.

import { alpha, themeVersion } from "../../kit/colour.js";
import { wastePattern } from "../../kit/texture.js";
import { cellOf, sampledAt } from "./token_row_columns.js";
import { VectorImage } from "./vectors.js";

/** @import {Band} from "./geometry.js" */
/** @import {Kind} from "./token_row_columns.js" */
/** @import {Scene} from "./token_row_paint.js" */

export const images = { k: new VectorImage(), v: new VectorImage(), q: new VectorImage() };

const COMPUTED_OPACITY = 0.35; // opacity of K and V before they are written

const REJECTED_OPACITY = 0.3; // opacity of a rejected draft's K and V

const USED_OPACITY = 0.4; // opacity of a used query, which is not cached

/** @param {Scene} scene @param {Band} box @param {Kind} kind */
export function paintVectors(scene, box, kind) {
  const { c, palette, now, layout, first, last, phases } = scene;
  const image = images[kind];
  image.reset(
    `${now.log.id}/${now.seq.seq_id}/${now.layer}/${kind === "q" ? now.head : now.kvHead}`,
    themeVersion.peek(),
  );
  const sampled = sampledAt(now);
  for (let p = first; p < last; p++) {
    const cell = cellOf(now, kind, p);
    const x = layout.x(p);
    if (cell.vector) {
      image.put(p, cell.source, cell.vector);
      const rejected = now.drafts !== null && p >= now.drafts.start + now.drafts.accepted ? phases.sample : 0;
      if (!cell.fresh) image.draw(c, p, x, box.y, layout.width, box.height);
      else if (rejected > 0) paintRejected(scene, image, p, x, box, rejected);
      else if (kind === "q") paintQuery(scene, image, p, x, box);
      else paintFilling(scene, image, p, x, box);
    } else if (cell.missing === "uncaptured" || cell.missing === "loading") {
      if (cell.fresh && phases.qkv === 0) continue;
      c.fillStyle = cell.missing === "loading" ? palette["line-2"] : wastePattern(c, palette.waste);
      c.fillRect(x, box.y, layout.width, box.height);
    } else if (cell.missing === "released") {
      if (kind !== "q") paintReleased(c, palette, x + layout.width / 2, box);
    } else if (kind !== "q" && !now.released) {
      paintPlaceholder(scene, x, box, p === sampled ? phases.sample : 1);
    }
  }
}

/**
 * Paint a dash for a vector whose block is freed.
 * @param {CanvasRenderingContext2D} c @param {Scene["palette"]} palette @param {number} x
 * @param {Band} box
 */
function paintReleased(c, palette, x, box) {
  c.fillStyle = palette["ink-3"];
  c.fillRect(x - 3, box.y + box.height / 2 - 0.5, 6, 1);
}

/**
 * Paint K and V of this step: computed in `qkv`, filling their slot in `write`.
 * @param {Scene} scene @param {VectorImage} image @param {number} p
 * @param {number} x @param {Band} box
 */
function paintFilling({ c, layout, phases }, image, p, x, box) {
  if (phases.write < 1 && phases.qkv > 0) {
    c.globalAlpha = COMPUTED_OPACITY * phases.qkv;
    image.draw(c, p, x, box.y, layout.width, box.height);
    c.globalAlpha = 1;
  }
  if (phases.write > 0) {
    c.save();
    c.beginPath();
    c.rect(x, box.y, layout.width, box.height * phases.write);
    c.clip();
    image.draw(c, p, x, box.y, layout.width, box.height);
    c.restore();
  }
}

/**
 * Paint K and V of a rejected draft, which leave their slot.
 * @param {Scene} scene @param {VectorImage} image @param {number} p
 * @param {number} x @param {Band} box
 * @param {number} rejected progress, 0 to 1
 */
function paintRejected(scene, image, p, x, box, rejected) {
  const { c, layout } = scene;
  c.save();
  c.beginPath();
  c.rect(x, box.y, layout.width, box.height);
  c.clip();
  c.globalAlpha = 1 - (1 - REJECTED_OPACITY) * rejected;
  image.draw(c, p, x, box.y + (box.height * rejected) / 2, layout.width, box.height);
  c.restore();
  paintPlaceholder(scene, x, box, rejected);
}

/**
 * Paint Q of this step: computed in `qkv`, used in `attend`, and not needed afterwards.
 * @param {Scene} scene @param {VectorImage} image @param {number} p
 * @param {number} x @param {Band} box
 */
function paintQuery({ c, palette, layout, phases }, image, p, x, box) {
  if (phases.qkv === 0) return;
  c.save();
  c.globalAlpha = 1 - (1 - USED_OPACITY) * phases.sample;
  c.beginPath();
  c.rect(x, box.y, layout.width, box.height * phases.qkv);
  c.clip();
  image.draw(c, p, x, box.y, layout.width, box.height);
  c.restore();
  if (phases.sample < 1) {
    c.strokeStyle = alpha(palette.q, phases.qkv * (1 - phases.sample));
    c.lineWidth = 1.5;
    c.strokeRect(x - 0.5, box.y - 0.5, layout.width + 1, box.height * phases.qkv + 1);
  }
}

/**
 * Paint the outline of a key and a value that do not exist yet.
 * @param {Pick<Scene, "c" | "palette"> & {layout: {width: number}}} scene
 * @param {number} x @param {Band} box @param {number} opacity
 */
export function paintPlaceholder({ c, palette, layout }, x, box, opacity) {
  if (opacity === 0) return;
  c.globalAlpha = opacity;
  c.lineWidth = 1;
  c.strokeStyle = palette["ink-3"];
  c.setLineDash([2, 3]);
  c.strokeRect(x + 0.5, box.y + 0.5, layout.width - 1, box.height - 1);
  c.setLineDash([]);
  c.globalAlpha = 1;
}

const NAME_FONT = "600 10.5px system-ui, sans-serif";
const HALO_WIDTH = 3; // px of the surface around the letters
const DIGITS = "₀₁₂₃₄₅₆₇₈₉";

/** Name of a vector. @param {Kind} kind @param {number} position */
export const vectorName = (kind, position) =>
  kind.toUpperCase() + Array.from(String(position), (digit) => DIGITS[Number(digit)]).join("");

/**
 * Paint the names of a row's vectors where they fit their columns. The name of a vector that is being computed appears
 * with the vector.
 * @param {import("./token_row_paint.js").Scene} scene @param {import("./geometry.js").Band} box @param {Kind} kind
 * @param {(position: number) => import("./token_row_columns.js").Cell} cellAt
 */
export function paintNames({ c, palette, layout, first, last, phases }, box, kind, cellAt) {
  c.save();
  c.font = NAME_FONT;
  c.textAlign = "center";
  c.textBaseline = "middle";
  c.lineJoin = "round";
  c.lineWidth = HALO_WIDTH;
  c.strokeStyle = palette.surface;
  c.fillStyle = palette[kind];
  for (let p = first; p < last; p++) {
    const cell = cellAt(p);
    const name = vectorName(kind, p);
    if (!cell.vector || c.measureText(name).width > layout.width - 2) continue;
    const [x, y] = [layout.x(p) + layout.width / 2, box.y + box.height / 2];
    c.globalAlpha = cell.fresh ? phases.qkv : 1;
    c.strokeText(name, x, y);
    c.fillText(name, x, y);
  }
  c.restore();
}
