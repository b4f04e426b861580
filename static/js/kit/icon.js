// Icons of buttons.

import { html } from "./html.js";

/** Strokes in a box of 16 by 16. */
const PATHS = {
  first: "M4 3v10 M13 3 6.5 8 13 13z",
  back: "M11.5 3 5 8l6.5 5z",
  forward: "M4.5 3 11 8l-6.5 5z",
  last: "M12 3v10 M3 3l6.5 5L3 13z",
  finish: "M1.5 3 6 8l-4.5 5z M7 3l4.5 5L7 13z M13.5 3v10",
  run: "M4.5 2.5 13 8l-8.5 5.5z",
  play: "M4.5 2.5 13 8l-8.5 5.5z",
  pause: "M5 3v10 M11 3v10",
  step: "M3 3l6 5-6 5z M12 3v10",
  prefill: "M2.5 4.5h11 M2.5 8h11 M2.5 11.5h7",
  reset: "M3.2 6.2A5.2 5.2 0 1 1 3 9.5 M3 2.8v3.6h3.6",
  share:
    "M6.5 9.5l4-4 M7.5 4.5l1.3-1.3a2.7 2.7 0 0 1 3.9 3.9L11.4 8.4 M8.5 11.5l-1.3 1.3a2.7 2.7 0 0 1-3.9-3.9l1.3-1.3",
  download: "M8 2.5v7.5 M4.8 7 8 10.2 11.2 7 M3 13.3h10",
  done: "M3 8.5 6.5 12 13 4.5",
  todo: "M8 3a5 5 0 1 0 0 10a5 5 0 1 0 0-10",
  picture: "M2.5 3.5h11v9h-11z M3 11l3.2-3.4 2.4 2.4 1.8-1.6 2.6 2.6 M10.6 6.2v.1",
  room: "M2 3h12v8H2z M8 11v2.5 M5.5 13.5h5",
  theme: "M8 2.5a5.5 5.5 0 1 0 0 11z M8 2.5a5.5 5.5 0 0 1 0 11",
  help: "M5.8 6.2a2.2 2.2 0 1 1 3.2 2c-.7.4-1 .8-1 1.6 M8 12.4v.2",
  add: "M8 3v10 M3 8h10",
  fork: "M4.5 3v10 M4.5 9.5c0-3 7-1.5 7-6 M9.3 5.6l2.2-2.3 2.2 2.3",
  larger: "M4 9.5 8 5.5l4 4",
  smaller: "M4 6.5l4 4 4-4",
  close: "M4 4l8 8 M12 4l-8 8",
  model: "M8 2.2 14 5.2 8 8.2 2 5.2z M2 8.2l6 3 6-3 M2 11l6 3 6-3",
  more: "M3 8h.1 M8 8h.1 M13 8h.1",
};
const SOLID = new Set(["first", "back", "forward", "last", "finish", "run", "step"]);

/** Icon of 16 px beside or instead of a label. @param {{name: keyof typeof PATHS}} props */
export function Icon({ name }) {
  return html`<svg class=${SOLID.has(name) ? "icon solid" : "icon"} viewBox="0 0 16 16" aria-hidden="true"><path
    d=${PATHS[name]} /></svg>`;
}
