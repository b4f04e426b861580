// The design's colours, measured: contrast on paper in both themes, and sequences that colour-vision deficiencies leave apart.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

const css = readFileSync(new URL("../../static/css/tokens.css", import.meta.url), "utf8");

/** The hexadecimal variables of the theme `light` or `dark`. @param {string} theme */
const variables = (theme) =>
  Object.fromEntries(
    [...css.matchAll(/^ {2}--([\w-]+): (.*);$/gm)].flatMap(([, name, value]) => {
      const found = value.match(/^#[0-9a-f]{6}$/)?.[0] ?? value.match(`--${theme}, (#[0-9a-f]{6})`)?.[1];
      return found ? [[name, found]] : [];
    }),
  );

const [light, dark] = ["light", "dark"].map(variables);

const channels = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255);
const linear = (value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
const luminance = (hex) =>
  channels(hex)
    .map(linear)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);

/** WCAG 2: (L1 + 0.05) / (L2 + 0.05) */
function contrast(a, b) {
  const [dim, bright] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (bright + 0.05) / (dim + 0.05);
}

for (const [name, theme] of Object.entries({ light, dark })) {
  test(`text has a contrast of 4.5 on paper and on surfaces, ${name}`, () => {
    for (const ink of ["ink", "ink-2", "ink-3", "q-text", "k", "v", "prompt", "generated", "fault"])
      for (const paper of ["paper", "surface"]) {
        const found = contrast(theme[ink], theme[paper]);
        assert.ok(found >= 4.5, `${ink} on ${paper}: ${found.toFixed(2)}`);
      }
  });

  test(`marks that mean something have a contrast of 3, ${name}`, () => {
    for (const mark of ["q", "k", "v", "prompt", "generated", "fault", "focus"]) {
      const found = contrast(theme[mark], theme.paper);
      assert.ok(found >= 3, `${mark}: ${found.toFixed(2)}`);
    }
  });

  test(`the eight sequences stay apart under every common deficiency, ${name}`, () => {
    for (const [sight, matrix] of Object.entries(SIGHTS)) {
      const seen = Array.from({ length: 8 }, (_, i) => oklab(channels(theme[`seq-${i}`]).map(linear), matrix));
      for (let i = 0; i < 8; i++)
        for (let j = i + 1; j < 8; j++) {
          const distance = Math.hypot(...seen[i].map((v, k) => v - seen[j][k]));
          assert.ok(distance >= APART, `${sight}: seq-${i} and seq-${j} differ by ${distance.toFixed(3)}`);
        }
    }
  });
}

const APART = 0.05; // OKLab: more than twice the least difference that is noticed; every sequence has a texture of its own besides

// Machado, Oliveira, Fernandes 2009, severity 1.0, on linear RGB.
const SIGHTS = {
  normal: [1, 0, 0, 0, 1, 0, 0, 0, 1],
  protanopia: [0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998],
  deuteranopia: [0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.01182, 0.04294, 0.968881],
  tritanopia: [1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733, 0.691367, 0.3039],
};

function oklab(rgb, m) {
  const [r, g, b] = [0, 3, 6].map((row) => Math.max(0, m[row] * rgb[0] + m[row + 1] * rgb[1] + m[row + 2] * rgb[2]));
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const n = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [
    0.2104542553 * l + 0.793617785 * n - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * n + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * n - 0.808675766 * s,
  ];
}
