// While a picture is taken the canvases are painted with as many pixels as the PNG has, whatever the screen offers.

import { sharpen } from "../../kit/canvas.js";
import { themeVersion } from "../../kit/colour.js";
import { SCALE } from "./sheet.js";

const repaint = async () => {
  themeVersion.value += 1; // every painter watches it
  for (let i = 0; i < 2; i++) await new Promise(requestAnimationFrame);
};

/**
 * Run `take` while every canvas is painted sharply enough; painted as before afterwards.
 *
 * @template T
 * @param {() => Promise<T>} take
 */
export async function sharply(take) {
  sharpen(SCALE);
  try {
    await repaint();
    return await take();
  } finally {
    sharpen(1);
    await repaint();
  }
}
