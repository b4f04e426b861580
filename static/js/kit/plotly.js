// Plotly integration: loaded from this server with the first chart, under the page's strict Content Security Policy.
//
// The script is the one of the plotly package (app/page/plotly.py). It needs no eval for the traces drawn here, and it
// sets styles through the CSSOM, which the policy allows. Three of its operations would violate `style-src 'self'`:
// - on startup it writes global rules into a <style>, unless a style sheet is marked as their replacement: the
//   <link id="plotly.js-style-global" class="no-inline-styles"> of charts.css in the page's head;
// - its map module adds a <style> unless an element with its id exists: MAP_STYLE_ID;
// - pseudo-HTML in texts (<b>, <sub>) becomes style attributes: texts of this page have none, and hovering uses
//   the page's own tooltip. The mode bar, which adds rules too, is off: the page has its own buttons.
// The policy therefore needs no exception. A browser test fails if a release of Plotly breaks it.

import { isEmbedded } from "../state/without_server.js";
import { alpha, colours } from "./colour.js";

const ADDRESS = "vendor/plotly.min.js";
const MAP_STYLE_ID = "9f215cf04c5486422605d13261cb87401f4e7763b6296af81e98efbc0130da53"; // in plotly.js 4.1

/** @type {Promise<Plotly> | null} */
let loading = null;

/**
 * Part of Plotly's interface that is used here. Figures are plain values and not typed.
 *
 * @typedef {{
 *   react: (element: Element, data: object[], layout: object, config: object) => Promise<unknown>,
 *   downloadImage: (figure: object, options: object) => Promise<unknown>,
 *   purge: (element: Element) => void,
 * }} Plotly
 */

/** Load Plotly once. Rejects if the server does not have it, and in a single-file page, which does not include it. */
export function loadPlotly() {
  if (isEmbedded) return Promise.reject(new Error(ADDRESS));
  loading ??= new Promise((resolve, reject) => {
    if (!document.getElementById(MAP_STYLE_ID))
      document.head.append(Object.assign(document.createElement("meta"), { id: MAP_STYLE_ID }));
    const script = Object.assign(document.createElement("script"), { src: ADDRESS, async: true });
    script.addEventListener("load", () => resolve(/** @type {{Plotly?: any}} */ (globalThis).Plotly));
    script.addEventListener("error", () => {
      script.remove();
      loading = null; // retried on the next use
      reject(new Error(ADDRESS));
    });
    document.head.append(script);
  });
  return loading;
}

export const CONFIG = { displayModeBar: false, responsive: false, doubleClick: "reset", showTips: false };

/**
 * Return the page's style as a Plotly layout; charts add their axes with `axis`.
 * @param {number} width
 * @param {number} height
 */
export function baseLayout(width, height) {
  const palette = colours();
  return {
    width,
    height,
    margin: { l: 48, r: 10, t: 8, b: 34 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: palette["ink-2"] },
    showlegend: false,
    barmode: "stack",
    bargap: 0.12,
    dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
    hoverdistance: 40,
  };
}

/** Return an axis in the page's style. @param {string} title @param {Record<string, unknown>} [more] */
export function axis(title, more = {}) {
  const palette = colours();
  return {
    title: { text: title, standoff: 4, font: { size: 12, color: palette["ink-3"] } },
    gridcolor: palette["line-2"],
    linecolor: palette.line,
    tickcolor: palette.line,
    zerolinecolor: palette.line,
    ticks: "outside",
    ticklen: 3,
    automargin: false,
    fixedrange: false,
    ...more,
  };
}

/** Return a band that marks a step on an x axis of steps. @param {number} step */
export function stepBand(step) {
  const palette = colours();
  return {
    type: "rect",
    xref: "x",
    yref: "paper",
    x0: step - 0.5,
    x1: step + 0.5,
    y0: 0,
    y1: 1,
    fillcolor: alpha(palette.focus, 0.18),
    line: { width: 0 },
    layer: "below",
  };
}
