// Colours for canvases, read from the style sheet, and the two colour scales of values.

import { signal } from "../../vendor/signals/signals.js";
import { html } from "./html.js";

/** Component with the colour and texture of a sequence. @param {{id: number}} props */
export function Swatch({ id }) {
  return html`<span class=${`swatch seq-${id % 8}`} aria-hidden="true"></span>`;
}

const STEPS = 128; // per half of the diverging scale
const GAMMA = 0.7; // keeps small values visible; the legend shows the same curve

/**
 * @typedef {[number, number, number]} Rgb
 * @typedef {Rgb[]} Scale 257 colours, from -1 to 1
 * @typedef {Record<typeof NAMES[number], string> & {sequences: string[], diverging: Scale, sequential: Scale}} Palette
 */

/** Incremented when the theme changes; painters subscribe to it. */
export const themeVersion = signal(0);

/** @type {Palette | null} */
let cached = null;

/** Return the design's colours by name (`ink`, `q`, `seq3`, …), as CSS colours. */
export function colours() {
  cached ??= readColours();
  return cached;
}

/** Read the style sheet again, after a change of theme. */
export function themeChanged() {
  cached = null;
  themeVersion.value = themeVersion.peek() + 1;
}

const NAMES = /** @type {const} */ ([
  ...["paper", "surface", "ink", "ink-2", "ink-3", "line", "line-2", "q", "k", "v", "prompt", "generated", "waste"],
  ...["fault", "focus", "neg", "zero", "pos", "att-0", "att-1", "att-2"],
]);

/** @returns {Palette} */
function readColours() {
  const style = getComputedStyle(document.documentElement);
  /** @param {string} name */
  const read = (name) => style.getPropertyValue(`--${name}`).trim();
  const named = /** @type {Record<typeof NAMES[number], string>} */ (
    Object.fromEntries(NAMES.map((name) => [name, read(name)]))
  );
  return {
    ...named,
    sequences: Array.from({ length: 8 }, (_, i) => read(`seq-${i}`)),
    diverging: divergingScale(named.neg, named.zero, named.pos),
    sequential: sequentialScale([named["att-0"], named["att-1"], named["att-2"]]),
  };
}

/**
 * Return the [r, g, b] of `value` in [-1, 1]; zero has the background's colour.
 * @param {Scale} scale
 * @param {number} value
 * @returns {Rgb}
 */
export function divergingAt(scale, value) {
  const clipped = Math.max(-1, Math.min(1, value));
  const bent = Math.sign(clipped) * Math.abs(clipped) ** GAMMA;
  return scale[Math.round((bent + 1) * STEPS)];
}

/** Return the CSS colour of `share` in [0, 1] on the attention scale. @param {Scale} scale @param {number} share */
export function sequentialAt(scale, share) {
  const [r, g, b] = scale[Math.round(Math.max(0, Math.min(1, share)) ** GAMMA * 2 * STEPS)];
  return `rgb(${r},${g},${b})`;
}

/** @param {string} low @param {string} zero @param {string} high @returns {Scale} */
export function divergingScale(low, zero, high) {
  const [a, b, c] = [low, zero, high].map(toOklab);
  return Array.from({ length: 2 * STEPS + 1 }, (_, i) => (i < STEPS ? mix(a, b, i / STEPS) : mix(b, c, i / STEPS - 1)));
}

/** @param {[string, string, string]} colours from 0 to 1 */
function sequentialScale([from, via, to]) {
  return divergingScale(from, via, to);
}

/** Return `#rrggbb` with an opacity. @param {string} hex @param {number} opacity */
export function alpha(hex, opacity) {
  const [r, g, b] = toRgb(hex);
  return `rgba(${r},${g},${b},${opacity})`;
}

/** Return a round number at or above `value`: 1, 1.5, 2, 3, 5 or 7 times a power of ten. @param {number} value */
export function niceCeiling(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  const step = [1, 1.5, 2, 3, 5, 7, 10].find((s) => value <= s * power * (1 + 1e-9)) ?? 10;
  return Number((step * power).toPrecision(2));
}

/** @param {string} hex */
function toRgb(hex) {
  const digits = hex.replace("#", "");
  return [0, 2, 4].map((i) => parseInt(digits.slice(i, i + 2), 16));
}

// OKLab, in which steps of a mixture are perceptually even: https://bottosson.github.io/posts/oklab/
/** @param {string} hex */
function toOklab(hex) {
  const [r, g, b] = toRgb(hex).map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
}

/** @param {number[]} a @param {number[]} b @param {number} t @returns {Rgb} */
function mix(a, b, t) {
  const [lightness, green, blue] = a.map((v, i) => v + (b[i] - v) * t);
  const l = (lightness + 0.3963377774 * green + 0.2158037573 * blue) ** 3;
  const m = (lightness - 0.1055613458 * green - 0.0638541728 * blue) ** 3;
  const s = (lightness - 0.0894841775 * green - 1.291485548 * blue) ** 3;
  const rgb = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ].map((v) => Math.round(255 * Math.max(0, Math.min(1, v <= 0.0031308 ? 12.92 * v : 1.055 * v ** (1 / 2.4) - 0.055))));
  return /** @type {Rgb} */ (rgb);
}
