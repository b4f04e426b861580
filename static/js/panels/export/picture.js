// A part of the page as an SVG: text and lines stay vectors, tensors that are drawn on a canvas are embedded as images.
//
// The walk follows what the browser has laid out (boxes, lines of text, colours), so a picture shows what the screen
// shows, in the theme's colours. What is drawn on a canvas has no vectors to keep: its pixels go in as a PNG.

import { contextOf } from "../../kit/canvas.js";
import { sequencePattern } from "../../kit/texture.js";
import { paint, plain } from "./colour.js";
import { escaped, fontAttributes, textOf } from "./text.js";

/** Left out: controls that make no sense in a picture, and what only screen readers are told. */
const SKIPPED = ".visually-hidden, .tool, .skip, input[type=range], script, style, template, [data-no-picture]";

/** What of an SVG's style has to travel with it. */
const CARRIED = [
  ...["fill", "fill-opacity", "fill-rule", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray"],
  ...["stroke-linecap", "stroke-linejoin", "opacity", "font-family", "font-size", "font-weight", "font-style"],
  ...["text-anchor", "dominant-baseline", "visibility", "display", "paint-order"],
];

/**
 * @typedef {{x: number, y: number, width: number, height: number}} Box from the drawing's corner
 * @typedef {{origin: DOMRect, defs: string[], parts: string[]}} Drawing
 * @typedef {{width: number, line: string, colour: string}} Border
 */

/**
 * The drawing of `element`: {width, height, body}, where `body` is SVG whose origin is the element's corner.
 *
 * @param {Element} element
 */
export function drawingOf(element) {
  const box = element.getBoundingClientRect();
  /** @type {Drawing} */
  const drawing = { origin: box, defs: [], parts: [] };
  walk(element, drawing);
  return {
    width: box.width,
    height: box.height,
    body: `<defs>${drawing.defs.join("")}</defs>${drawing.parts.join("")}`,
  };
}

/**
 * @param {Element} element
 * @param {Drawing} drawing
 */
function walk(element, drawing) {
  if (element.matches(SKIPPED)) return;
  const style = getComputedStyle(element);
  const box = element.getBoundingClientRect();
  if (style.display === "none" || style.visibility === "hidden" || style.opacity === "0") return;
  if (box.width === 0 && box.height === 0 && style.display !== "contents") return;
  const at = {
    x: box.left - drawing.origin.left,
    y: box.top - drawing.origin.top,
    width: box.width,
    height: box.height,
  };
  const open = openGroup(style, at, drawing);
  if (element instanceof SVGSVGElement) drawing.parts.push(cloned(element, at));
  else {
    drawing.parts.push(background(element, style, at, drawing), borders(style, at));
    if (element instanceof HTMLCanvasElement) drawing.parts.push(image(element, at));
    else if (element.matches("select, input, textarea"))
      drawing.parts.push(fieldText(/** @type {HTMLInputElement} */ (element), style, at));
    else if (element.matches("mfrac")) fraction(element, style, drawing);
    else children(element, style, drawing);
  }
  drawing.parts.push(open);
}

/**
 * @param {Element} element
 * @param {CSSStyleDeclaration} style
 * @param {Drawing} drawing
 */
function children(element, style, drawing) {
  for (const child of element.childNodes) {
    if (child.nodeType === Node.TEXT_NODE)
      drawing.parts.push(textOf(/** @type {Text} */ (child), style, drawing.origin));
    else if (child.nodeType === Node.ELEMENT_NODE) walk(/** @type {Element} */ (child), drawing);
  }
}

/**
 * Opens a group where the element fades or cuts what is in it; returns what closes it.
 *
 * @param {CSSStyleDeclaration} style
 * @param {Box} at
 * @param {Drawing} drawing
 */
function openGroup(style, at, drawing) {
  let closing = "";
  if (style.opacity !== "1") {
    drawing.parts.push(`<g opacity="${style.opacity}">`);
    closing += "</g>";
  }
  if (style.overflowX !== "visible" || style.overflowY !== "visible") {
    const id = `cut${drawing.defs.length}`;
    drawing.defs.push(`<clipPath id="${id}">${rect(at)}</clipPath>`);
    drawing.parts.push(`<g clip-path="url(#${id})">`);
    closing += "</g>";
  }
  return closing;
}

/** @param {number} value */
const n = (value) => Number(value.toFixed(2));
/** @type {(at: Box, attributes?: string) => string} */
const rect = ({ x, y, width, height }, attributes = "") =>
  `<rect x="${n(x)}" y="${n(y)}" width="${n(width)}" height="${n(height)}" ${attributes}/>`;

/**
 * @param {Element} element
 * @param {CSSStyleDeclaration} style
 * @param {Box} at
 * @param {Drawing} drawing
 */
function background(element, style, at, drawing) {
  const radius = parseFloat(style.borderTopLeftRadius) || 0;
  const round = radius ? `rx="${Math.min(radius, at.width / 2, at.height / 2)}"` : "";
  const fill = paint("fill", style.backgroundColor);
  const parts = fill ? [rect(at, `${round} ${fill}`)] : [];
  const sequence = /\bseq-(\d)\b/.exec(element.getAttribute("class") ?? "");
  if (sequence) parts.push(swatch(Number(sequence[1]), style.backgroundColor, at));
  else if (style.backgroundImage !== "none") parts.push(gradient(style.backgroundImage, at, drawing));
  const ring = style.boxShadow.match(/^(.*\)) 0px 0px 0px ([\d.]+)px inset$/);
  if (ring)
    parts.push(
      rect(
        inset(at, Number(ring[2]) / 2),
        `${round} fill="none" ${paint("stroke", ring[1])} stroke-width="${ring[2]}"`,
      ),
    );
  return parts.join("");
}

/** @type {(at: Box, by: number) => Box} */
const inset = ({ x, y, width, height }, by) => ({
  x: x + by,
  y: y + by,
  width: Math.max(0, width - 2 * by),
  height: Math.max(0, height - 2 * by),
});

/**
 * A sequence's texture, as the pool paints it.
 *
 * @param {number} id
 * @param {string} colour
 * @param {Box} at
 */
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
 * Scales of values (a plain gradient to the right) and hatching; other gradients do not occur on the page.
 *
 * @param {string} css
 * @param {Box} at
 * @param {Drawing} drawing
 */
function gradient(css, at, drawing) {
  const colours = css.match(/rgba?\([^)]*\)|color\([^)]*\)|oklab\([^)]*\)/g) ?? [];
  const id = `paint${drawing.defs.length}`;
  if (css.startsWith("linear-gradient(90deg")) {
    const stops = colours.map((c, i) => {
      const colour = paint("stop-color", c).replace("stop-color-opacity", "stop-opacity");
      return `<stop offset="${i / Math.max(1, colours.length - 1)}" ${colour}/>`;
    });
    drawing.defs.push(`<linearGradient id="${id}">${stops.join("")}</linearGradient>`);
  } else if (css.startsWith("repeating-linear-gradient") && colours.length) {
    const line = `<path d="M0 4 4 0" fill="none" ${paint("stroke", colours[0] ?? "")}/>`;
    drawing.defs.push(`<pattern id="${id}" width="4" height="4" patternUnits="userSpaceOnUse">${line}</pattern>`);
  } else return "";
  return rect(at, `fill="url(#${id})"`);
}

/**
 * @param {CSSStyleDeclaration} style
 * @param {Box} at
 */
function borders(style, at) {
  const sides = ["top", "right", "bottom", "left"].map((side) => ({
    width: parseFloat(style.getPropertyValue(`border-${side}-width`)),
    line: style.getPropertyValue(`border-${side}-style`),
    colour: style.getPropertyValue(`border-${side}-color`),
  }));
  const seen = sides.filter((s) => s.width > 0 && s.line !== "none");
  if (seen.length === 0) return "";
  /** @param {Border} s */
  const pen = (s) => {
    /** @type {Record<string, string>} */
    const dashes = { dashed: `stroke-dasharray="${2 * s.width + 1}"`, dotted: `stroke-dasharray="${s.width}"` };
    const dash = dashes[s.line] ?? "";
    return `fill="none" ${paint("stroke", s.colour)} stroke-width="${s.width}" ${dash}`;
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

/**
 * A canvas has pixels only: they are embedded, as many as were painted.
 *
 * @param {HTMLCanvasElement} canvas
 * @param {Box} at
 */
function image(canvas, at) {
  if (!canvas.width || !canvas.height) return "";
  const box = `x="${n(at.x)}" y="${n(at.y)}" width="${n(at.width)}" height="${n(at.height)}"`;
  return `<image ${box} preserveAspectRatio="none" href="${canvas.toDataURL("image/png")}"/>`;
}

/**
 * @param {HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement} field
 * @param {CSSStyleDeclaration} style
 * @param {Box} at
 */
function fieldText(field, style, at) {
  const text = "selectedOptions" in field ? (field.selectedOptions[0]?.textContent ?? "").trim() : field.value;
  const x = at.x + parseFloat(style.paddingLeft) + 1;
  const place = `x="${n(x)}" y="${n(at.y + at.height / 2)}" dominant-baseline="central"`;
  return `<text ${place} ${fontAttributes(style)} ${paint("fill", style.color)}>${escaped(text)}</text>`;
}

/**
 * The line of a fraction is drawn by the browser alone: between numerator and denominator.
 *
 * @param {Element} element
 * @param {CSSStyleDeclaration} style
 * @param {Drawing} drawing
 */
function fraction(element, style, drawing) {
  children(element, style, drawing);
  const [above, below] = Array.from(element.children, (child) => child.getBoundingClientRect());
  if (!above || !below) return;
  const box = element.getBoundingClientRect();
  const y = (above.bottom + below.top) / 2 - drawing.origin.top;
  drawing.parts.push(
    `<path d="M${n(box.left - drawing.origin.left)} ${n(y)}h${n(box.width)}" ${paint("stroke", style.color)}/>`,
  );
}

/**
 * An SVG of the page, with the styles that the page's sheets gave it.
 *
 * @param {SVGSVGElement} svg
 * @param {Box} at
 */
function cloned(svg, at) {
  const copy = /** @type {SVGSVGElement} */ (svg.cloneNode(true));
  /** @type {SVGElement[]} */
  const originals = [svg, .../** @type {NodeListOf<SVGElement>} */ (svg.querySelectorAll("*"))];
  [copy, ...copy.querySelectorAll("*")].forEach((element, i) => {
    const style = getComputedStyle(originals[i]);
    const shift = originals[i].style?.transform; // a transform by style, which attributes do not say
    for (const name of CARRIED) {
      const value = style.getPropertyValue(name);
      if (value)
        element.setAttribute(
          name,
          /^(fill|stroke)$/.test(name) && /^(color|oklab)\(/.test(value) ? plain(value)[0] : value,
        );
    }
    if (shift && !element.getAttribute("transform")) element.setAttribute("transform", shift.replace(/px|deg/g, ""));
    element.removeAttribute("class");
    element.removeAttribute("style");
  });
  for (const [name, value] of Object.entries({ x: n(at.x), y: n(at.y), width: n(at.width), height: n(at.height) }))
    copy.setAttribute(name, String(value));
  copy.setAttribute("overflow", "visible");
  return new XMLSerializer().serializeToString(copy);
}
