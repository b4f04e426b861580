// Renders a part of the page as SVG. Text and lines stay vectors; tensors drawn on a canvas are embedded as images. The
// walk follows the browser's layout (boxes, lines of text, colours), so a picture matches the screen in the current
// theme. Canvas contents have no vectors and are embedded as PNG.

import { background, borders } from "./box.js";
import { image, n, paint, plain, rect } from "./svg.js";
import { escaped, fontAttributes, textOf } from "./text.js";

/** @import {At} from "./svg.js" */

/** @typedef {{origin: DOMRect, defs: string[], parts: string[]}} Drawing */

/** Skipped elements: controls without meaning in a picture, and text for screen readers only. */
const SKIPPED = ".visually-hidden, .tool, .skip, input[type=range], script, style, template, [data-no-picture]";

/** Computed styles of inline SVGs that are copied into the export. */
const COPIED_STYLES = [
  ...["fill", "fill-opacity", "fill-rule", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray"],
  ...["stroke-linecap", "stroke-linejoin", "opacity", "font-family", "font-size", "font-weight", "font-style"],
  ...["text-anchor", "dominant-baseline", "visibility", "display", "paint-order"],
];

/** Draw `element`. `body` is SVG whose origin is the element's top left corner. @param {Element} element */
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

/** @param {Element} element @param {Drawing} drawing */
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
  const closingTags = openGroup(style, at, drawing);
  if (element instanceof SVGSVGElement) drawing.parts.push(clonedSvg(element, at));
  else {
    drawing.parts.push(background(element, style, at, drawing.defs), borders(style, at));
    if (element instanceof HTMLCanvasElement) drawing.parts.push(image(element, at));
    else if (isField(element)) drawing.parts.push(fieldText(element, style, at));
    else if (element.matches("mfrac")) fraction(element, style, drawing);
    else children(element, style, drawing);
  }
  drawing.parts.push(closingTags);
}

/** @param {Element} element @param {CSSStyleDeclaration} style @param {Drawing} drawing */
function children(element, style, drawing) {
  for (const child of element.childNodes) {
    if (child instanceof Text) drawing.parts.push(textOf(child, style, drawing.origin));
    else if (child instanceof Element) walk(child, drawing);
  }
}

/**
 * Open a group if the element has opacity or clips its contents. Returns the closing tags.
 * @param {CSSStyleDeclaration} style @param {At} at @param {Drawing} drawing
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

/** @typedef {HTMLSelectElement | HTMLInputElement | HTMLTextAreaElement} Field */

/** @param {Element} element @returns {element is Field} */
const isField = (element) => element.matches("select, input, textarea");

/** @param {Field} field @param {CSSStyleDeclaration} style @param {At} at */
function fieldText(field, style, at) {
  const text = "selectedOptions" in field ? (field.selectedOptions[0]?.textContent ?? "").trim() : field.value;
  const x = at.x + parseFloat(style.paddingLeft) + 1;
  const place = `x="${n(x)}" y="${n(at.y + at.height / 2)}" dominant-baseline="central"`;
  return `<text ${place} ${fontAttributes(style)} ${paint("fill", style.color)}>${escaped(text)}</text>`;
}

/**
 * Draw a fraction with its bar, which the browser renders without an element, between numerator and denominator.
 * @param {Element} element @param {CSSStyleDeclaration} style @param {Drawing} drawing
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

/** Clone an inline SVG with its computed styles as attributes. @param {SVGSVGElement} svg @param {At} at */
function clonedSvg(svg, at) {
  const copy = /** @type {SVGSVGElement} */ (svg.cloneNode(true));
  const originals = elementsOf(svg);
  elementsOf(copy).forEach((element, i) => {
    const style = getComputedStyle(originals[i]);
    const transform = originals[i].style?.transform; // a CSS transform is not an attribute
    for (const name of COPIED_STYLES) {
      const value = style.getPropertyValue(name);
      if (value)
        element.setAttribute(
          name,
          /^(fill|stroke)$/.test(name) && /^(color|oklab)\(/.test(value) ? plain(value)[0] : value,
        );
    }
    if (transform && !element.getAttribute("transform"))
      element.setAttribute("transform", transform.replace(/px|deg/g, ""));
    element.removeAttribute("class");
    element.removeAttribute("style");
  });
  for (const [name, value] of Object.entries({ x: n(at.x), y: n(at.y), width: n(at.width), height: n(at.height) }))
    copy.setAttribute(name, String(value));
  copy.setAttribute("overflow", "visible");
  return new XMLSerializer().serializeToString(copy);
}

/** Return an SVG and all its descendants. @param {SVGSVGElement} svg @returns {SVGElement[]} */
const elementsOf = (svg) => [svg, .../** @type {NodeListOf<SVGElement>} */ (svg.querySelectorAll("*"))];
