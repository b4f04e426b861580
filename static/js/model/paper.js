// Printing is in the light theme, whatever the screen shows: the canvases are painted again before the browser takes the page.

import { themeChanged } from "../draw/colour.js";
import { flushNow } from "../draw/frame.js";

export function preparePaper() {
  const root = document.documentElement;
  let shown = null;
  const repaint = (theme) => {
    root.dataset.theme = theme;
    themeChanged();
    flushNow(); // the browser does not wait for a frame
  };
  addEventListener("beforeprint", () => {
    if (shown !== null) return;
    shown = root.dataset.theme;
    document.getElementById("print-link").textContent = location.href;
    repaint("light");
  });
  addEventListener("afterprint", () => {
    if (shown === null) return;
    repaint(shown);
    shown = null;
  });
}
