// Any CSS colour as a hexadecimal one with an opacity: what every program that opens an SVG understands.

/** @type {Map<string, [string, number]>} */
const known = new Map();
/** @type {CanvasRenderingContext2D | null} */
let context = null;

/**
 * `[#rrggbb, opacity]` of a CSS colour as the browser computes it (`rgb()`, `color(srgb …)`, `oklab()`, …).
 *
 * @param {string} colour
 * @returns {[string, number]}
 */
export function plain(colour) {
  const found = known.get(colour) ?? measure(colour);
  known.set(colour, found);
  return found;
}

/**
 * @param {string} colour
 * @returns {[string, number]}
 */
function measure(colour) {
  const pixel = () => Object.assign(document.createElement("canvas"), { width: 1, height: 1 });
  context ??= /** @type {CanvasRenderingContext2D} */ (pixel().getContext("2d", { willReadFrequently: true }));
  context.clearRect(0, 0, 1, 1);
  context.fillStyle = colour;
  context.fillRect(0, 0, 1, 1);
  const [r, g, b, a] = context.getImageData(0, 0, 1, 1).data;
  return [`#${[r, g, b].map((v) => v.toString(16).padStart(2, "0")).join("")}`, Number((a / 255).toFixed(3))];
}

/**
 * The attributes `name="#…" name-opacity="…"`; "" for a colour that cannot be seen.
 *
 * @param {string} name
 * @param {string} colour
 */
export function paint(name, colour) {
  const [hex, opacity] = plain(colour);
  if (opacity === 0) return "";
  return opacity === 1 ? `${name}="${hex}"` : `${name}="${hex}" ${name}-opacity="${opacity}"`;
}
