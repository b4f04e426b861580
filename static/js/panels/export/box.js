// Drawing of an element's box from its computed style: background and borders.

import { contextOf } from "../../kit/canvas.js";
import { sequencePattern } from "../../kit/texture.js";
import { image, inset, n, paint, plain, rect } from "./svg.js";

/** @import {At} from "./svg.js" */

const SIDES = /** @type {const} */ (["Top", "Right", "Bottom", "Left"]);

/**
 * Draw the background of an element, and an inset ring made by `box-shadow`.
 * @param {Element} element @param {CSSStyleDeclaration} style @param {At} at
 * @param {string[]} defs receives gradients and patterns
 */
export function background(element, style, at, defs) {
  const radius = parseFloat(style.borderTopLeftRadius) || 0;
  const round = radius ? `rx="${Math.min(radius, at.width / 2, at.height / 2)}"` : "";
  const fill = paint("fill", style.backgroundColor);
  const parts = fill ? [rect(at, `${round} ${fill}`)] : [];
  const sequence = /\bseq-(\d)\b/.exec(element.classList.value);
  if (sequence) parts.push(swatch(Number(sequence[1]), style.backgroundColor, at));
  else if (style.backgroundImage !== "none") parts.push(gradient(style.backgroundImage, at, defs));
  const ring = style.boxShadow.match(/^(.*\)) 0px 0px 0px ([\d.]+)px inset$/);
  if (ring) {
    const [, colour, width] = ring;
    const pen = `${paint("stroke", colour)} stroke-width="${width}"`;
    parts.push(rect(inset(at, Number(width) / 2), `${round} fill="none" ${pen}`));
  }
  return parts.join("");
}

/** Draw a sequence's texture, as in the pool. @param {number} id @param {string} colour @param {At} at */
function swatch(id, colour, at) {
  const canvas = Object.assign(document.createElement("canvas"), {
    width: Math.ceil(2 * at.width),
    height: Math.ceil(2 * at.height),
  });
  const context = contextOf(canvas);
  context.scale(2, 2);
  context.fillStyle = sequencePattern(context, id, plain(getComputedStyle(document.body).backgroundColor)[0], 0.9);
  context.fillRect(0, 0, at.width, at.height);
  return plain(colour)[1] ? image(canvas, at) : "";
}

/**
 * Draw a colour scale (a linear gradient to the right) or hatching. The page uses no other gradients.
 * @param {string} css @param {At} at
 * @param {string[]} defs receives the gradient or the pattern
 */
function gradient(css, at, defs) {
  /** @type {string[]} */
  const colours = css.match(/rgba?\([^)]*\)|color\([^)]*\)|oklab\([^)]*\)/g) ?? [];
  const id = `paint${defs.length}`;
  if (css.startsWith("linear-gradient(90deg")) {
    const stops = colours.map((c, i) => {
      const colour = paint("stop-color", c).replace("stop-color-opacity", "stop-opacity");
      return `<stop offset="${i / Math.max(1, colours.length - 1)}" ${colour}/>`;
    });
    defs.push(`<linearGradient id="${id}">${stops.join("")}</linearGradient>`);
  } else if (css.startsWith("repeating-linear-gradient") && colours.length) {
    const line = `<path d="M0 4 4 0" fill="none" ${paint("stroke", colours[0])}/>`;
    defs.push(`<pattern id="${id}" width="4" height="4" patternUnits="userSpaceOnUse">${line}</pattern>`);
  } else return "";
  return rect(at, `fill="url(#${id})"`);
}

/** Draw the borders of an element. @param {CSSStyleDeclaration} style @param {At} at */
export function borders(style, at) {
  const sides = SIDES.map((name) => ({
    width: parseFloat(style[`border${name}Width`]),
    line: style[`border${name}Style`],
    colour: style[`border${name}Color`],
  }));
  const seen = sides.filter((s) => s.width > 0 && s.line !== "none");
  if (seen.length === 0) return "";
  /** @param {typeof sides[number]} s */
  const pen = (s) => {
    const dash = s.line === "dashed" ? 2 * s.width + 1 : s.line === "dotted" ? s.width : null;
    const dashes = dash === null ? "" : `stroke-dasharray="${dash}"`;
    return `fill="none" ${paint("stroke", s.colour)} stroke-width="${s.width}" ${dashes}`;
  };
  if (seen.length === 4 && seen.every((s) => s.colour === seen[0].colour && s.width === seen[0].width)) {
    const radius = parseFloat(style.borderTopLeftRadius) || 0;
    return rect(inset(at, seen[0].width / 2), `rx="${radius}" ${pen(seen[0])}`);
  }
  const [x0, y0, x1, y1] = [at.x, at.y, at.x + at.width, at.y + at.height];
  const [top, right, bottom, left] = sides.map((s) => s.width / 2);
  const ends = [
    [x0, y0 + top, x1, y0 + top],
    [x1 - right, y0, x1 - right, y1],
    [x0, y1 - bottom, x1, y1 - bottom],
    [x0 + left, y0, x0 + left, y1],
  ];
  return sides
    .map((s, i) =>
      seen.includes(s)
        ? `<path d="M${n(ends[i][0])} ${n(ends[i][1])} ${n(ends[i][2])} ${n(ends[i][3])}" ${pen(s)}/>`
        : "",
    )
    .join("");
}
