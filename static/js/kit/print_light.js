// Forced light theme for printing.

import { settings } from "../state/settings.js";
import { paint } from "./preferences.js";

export function printLight() {
  addEventListener("beforeprint", () => paint("light"));
  addEventListener("afterprint", () => paint(settings.theme.value));
}
