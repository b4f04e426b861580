// Parts of the page that can be exported as a picture: the stage, and every visible element with a panel title.

import { t } from "../../i18n/words.js";

/**
 * Return all exportable parts in document order. `key` finds a panel again after the page has changed.
 *
 * @returns {{key: string, title: string, element: Element}[]}
 */
export function panels() {
  /** @type {ReturnType<typeof panels>} */
  const found = [];
  /** @type {(key: string, title: string, element: Element | null) => void} */
  const add = (key, title, element) => {
    if (element && visible(element)) found.push({ key, title, element });
  };
  add("page", t("export.page"), document.querySelector("main"));
  add("stage", t("region.stage"), document.getElementById("region-stage"));
  add("token-row", t("export.token_row"), document.querySelector("#region-stage .token-row"));
  for (const heading of document.querySelectorAll("main .panel-title")) {
    const element = heading.closest("section, figure, .panel, .memory-map");
    const title = titleOf(heading);
    if (element && title) add(element.id || (element.className.split(" ").at(-1) ?? ""), title, element);
  }
  return found;
}

/** @param {string} key */
export const panelOf = (key) => panels().find((panel) => panel.key === key) ?? null;

/** @param {Element} element */
const visible = (element) => element.getClientRects().length > 0 && element.clientWidth > 0 && element.clientHeight > 0;

/** Text of a heading without fidelity marks and controls. @param {Element} heading */
function titleOf(heading) {
  const copy = /** @type {Element} */ (heading.cloneNode(true));
  for (const part of copy.querySelectorAll(".fidelity, button, select, input, .visually-hidden")) part.remove();
  return (copy.textContent ?? "").trim();
}
