// Any CSS colour as a hexadecimal one with an opacity: what every program that opens an SVG understands.

const known = new Map();
let context = null;

/** `[#rrggbb, opacity]` of a CSS colour as the browser computes it (`rgb()`, `color(srgb …)`, `oklab()`, …). */
export function plain(colour) {
  if (!known.has(colour)) known.set(colour, measure(colour));
  return known.get(colour);
}

function measure(colour) {
  context ??= Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", {
    willReadFrequently: true,
  });
  context.clearRect(0, 0, 1, 1);
  context.fillStyle = colour;
  context.fillRect(0, 0, 1, 1);
  const [r, g, b, a] = context.getImageData(0, 0, 1, 1).data;
  return [`#${[r, g, b].map((v) => v.toString(16).padStart(2, "0")).join("")}`, Number((a / 255).toFixed(3))];
}

/** The attributes `name="#…" name-opacity="…"`; "" for a colour that cannot be seen. */
export function paint(name, colour) {
  const [hex, opacity] = plain(colour);
  if (opacity === 0) return "";
  return opacity === 1 ? `${name}="${hex}"` : `${name}="${hex}" ${name}-opacity="${opacity}"`;
}
