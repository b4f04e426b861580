// Sidebar of the page: takes the focus when it opens, returns it when it closes, and closes on Escape.

import { useLayoutEffect, useRef } from "../../vendor/preact/hooks.js";
import { t } from "../i18n/words.js";
import { useReturnedFocus } from "./focus.js";
import { html } from "./html.js";
import { Icon } from "./icon.js";

/** @param {{id: string, label: string, close: () => void, children: import("./html.js").Children}} props */
export function Sidebar({ id, label, close, children }) {
  const panel = useRef(/** @type {HTMLElement | null} */ (null));
  const latest = useRef(close);
  useReturnedFocus(true);
  latest.current = close;
  useLayoutEffect(() => {
    /** @param {KeyboardEvent} event */
    const onEscape = (event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation(); // Escape closes one thing at a time, not also the selection
      latest.current();
    };
    panel.current?.focus();
    document.addEventListener("keydown", onEscape, true);
    return () => document.removeEventListener("keydown", onEscape, true);
  }, []);
  return html`<aside class="side" id=${id} aria-label=${label} tabindex="-1" ref=${panel}>
    <button class="tool side-close" aria-label=${t("help.close")} onClick=${close}><${Icon} name="close" /></button>
    ${children}
  </aside>`;
}
