// Legend of the curves: variants, and records if there are several.

import { inLanguage } from "../i18n/words.js";
import { html } from "../kit/html.js";
import { curveStyle, RECORD_STYLES, styleOf } from "./figure.js";
import { curves, isCategorical, variantsOf } from "./record.js";
import { machineText } from "./where.js";

/** @import {Shown} from "./store.js" */

/** @type {Record<string, string>} dashes of a line, as `stroke-dasharray` */
const DASHES = {
  solid: "",
  dash: "5 3",
  dot: "1.5 3",
  dashdot: "5 3 1.5 3",
  longdash: "8 3",
  longdashdot: "8 3 1.5 3",
};

/** @type {Record<string, string>} markers, as SVG paths in a box of 28 by 14 */
const SHAPES = {
  circle: "M18 7a4 4 0 1 1-8 0a4 4 0 1 1 8 0z",
  square: "M10.5 3.5h7v7h-7z",
  diamond: "M14 2l5 5l-5 5l-5-5z",
  "triangle-up": "M14 2l5 9h-10z",
  cross: "M12.5 2.5h3v3h3v3h-3v3h-3v-3h-3v-3h3z",
  x: "M10 4.5l1.5-1.5l2.5 2.5l2.5-2.5l1.5 1.5l-2.5 2.5l2.5 2.5l-1.5 1.5l-2.5-2.5l-2.5 2.5l-1.5-1.5l2.5-2.5z",
  star: "M14 1.5l1.6 3.6l3.9.4l-2.9 2.6l.9 3.9l-3.5-2l-3.5 2l.9-3.9l-2.9-2.6l3.9-.4z",
  pentagon: "M14 2.5l4.5 3.3l-1.7 5.2h-5.6l-1.7-5.2z",
};

/** @type {Record<string, string>} hatchings of bars, as SVG paths in that box */
const HATCHES = {
  "": "",
  "/": "M6 12L16 2M12 12L22 2",
  x: "M6 12L16 2M12 12L22 2M6 2L16 12M12 2L22 12",
  "-": "M6 5h16M6 9h16",
  "|": "M10 2v10M14 2v10M18 2v10",
  ".": "M10 5h1M15 5h1M10 9h1M15 9h1",
  "+": "M10 2v10M18 2v10M6 7h16",
  "\\": "M6 2L16 12M12 2L22 12",
};

/**
 * Legend: colour, marker and dash (for bars, hatching) of variants; line or hatching of records.
 * @param {{all: Shown[], labels: Map<string, string>, metric: string}} props
 */
export function Legend({ all, labels, metric }) {
  const records = all.map(({ record }) => record);
  const bars = isCategorical(records.find((record) => record.metrics[metric]) ?? records[0]);
  const drawn = new Set(records.flatMap((record) => curves(record, metric).map(({ variant }) => variant.id)));
  return html`<ul class="bench-legend">
      ${variantsOf(records).map((variant, index) => {
        if (!drawn.has(variant.id)) return null;
        const { dash, symbol, pattern } = curveStyle(index, 0, all.length);
        const peer = records.map(({ peers }) => peers[variant.id]).find(Boolean);
        return html`<li key=${variant.id} class=${`bench-style-${styleOf(index).colour}`}>
          <svg viewBox="0 0 28 14" width="28" height="14" aria-hidden="true">
            ${
              bars
                ? html`<rect x="6" y="2" width="16" height="10" class="bench-key-fill" />
                  <path d=${HATCHES[pattern]} class="bench-key-hatch" />`
                : html`<path d="M0 7h28" stroke-dasharray=${DASHES[dash]} class="bench-key-line" />
                  <path d=${SHAPES[symbol]} class="bench-key-fill" />`
            }
          </svg>
          ${inLanguage(variant.title)}${peer ? html` <span class="hint">${peer}</span>` : null}
        </li>`;
      })}
    </ul>
    ${all.length > 1 ? html`<${Records} all=${all} labels=${labels} bars=${bars} />` : null}`;
}

/** @param {{all: Shown[], labels: Map<string, string>, bars: boolean}} props */
function Records({ all, labels, bars }) {
  return html`<ul class="bench-legend records">
    ${all.map(({ id, record }, place) => {
      const { dash, pattern } = RECORD_STYLES[place % RECORD_STYLES.length];
      return html`<li key=${id}>
        <svg viewBox="0 0 28 14" width="28" height="14" aria-hidden="true">
          ${
            bars
              ? html`<rect x="6" y="2" width="16" height="10" class="bench-key-fill" />
                <path d=${HATCHES[pattern]} class="bench-key-hatch" />`
              : html`<path d="M0 7h28" stroke-dasharray=${DASHES[dash]} class="bench-key-line" />
                <path d=${SHAPES.circle} class=${place ? "bench-key-open" : "bench-key-fill"} />`
          }
        </svg>
        ${labels.get(id)} <span class="hint">${machineText(record)}</span>
      </li>`;
    })}
  </ul>`;
}
