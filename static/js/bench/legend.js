// Which curve is which: the variants, and with several records whose they are.

import { html } from "../kit/html.js";
import { inLanguage } from "../tell/words.js";
import { curveStyle, RECORD_STYLES, styleOf } from "./figure.js";
import { DASHES, HATCHES, SHAPES } from "./marks.js";
import { curves, isCategorical, variantsOf } from "./record.js";
import { machineText } from "./where.js";

/** @typedef {import("./store.js").Shown} Shown */

/**
 * Variants by colour, and without colour by marker and dash, or the bars' hatching; records by line or hatching.
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
