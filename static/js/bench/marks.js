// Plotly's dashes, markers and hatchings as the legend draws them.

/** @type {Record<string, string>} a line's dashes, as `stroke-dasharray` */
export const DASHES = {
  solid: "",
  dash: "5 3",
  dot: "1.5 3",
  dashdot: "5 3 1.5 3",
  longdash: "8 3",
  longdashdot: "8 3 1.5 3",
};

/** @type {Record<string, string>} a marker, as an SVG path in a box of 28 by 14 */
export const SHAPES = {
  circle: "M18 7a4 4 0 1 1-8 0a4 4 0 1 1 8 0z",
  square: "M10.5 3.5h7v7h-7z",
  diamond: "M14 2l5 5l-5 5l-5-5z",
  "triangle-up": "M14 2l5 9h-10z",
  cross: "M12.5 2.5h3v3h3v3h-3v3h-3v-3h-3v-3h3z",
  x: "M10 4.5l1.5-1.5l2.5 2.5l2.5-2.5l1.5 1.5l-2.5 2.5l2.5 2.5l-1.5 1.5l-2.5-2.5l-2.5 2.5l-1.5-1.5l2.5-2.5z",
  star: "M14 1.5l1.6 3.6l3.9.4l-2.9 2.6l.9 3.9l-3.5-2l-3.5 2l.9-3.9l-2.9-2.6l3.9-.4z",
  pentagon: "M14 2.5l4.5 3.3l-1.7 5.2h-5.6l-1.7-5.2z",
};

/** @type {Record<string, string>} a bar's hatching, likewise */
export const HATCHES = {
  "": "",
  "/": "M6 12L16 2M12 12L22 2",
  x: "M6 12L16 2M12 12L22 2M6 2L16 12M12 2L22 12",
  "-": "M6 5h16M6 9h16",
  "|": "M10 2v10M14 2v10M18 2v10",
  ".": "M10 5h1M15 5h1M10 9h1M15 9h1",
  "+": "M10 2v10M18 2v10M6 7h16",
  "\\": "M6 2L16 12M12 2L22 12",
};
