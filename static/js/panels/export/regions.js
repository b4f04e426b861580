// Which parts of the page can be taken out as a picture: whatever has a panel's title and is on screen, and the stage.

import { t } from "../../tell/words.js";

/** [{key, title, element}], in the order of the page. `key` finds the panel again after the page has changed. */
export function panels() {
  const found = [];
  const add = (key, title, element) => element && visible(element) && found.push({ key, title, element });
  add("page", t("export.page"), document.querySelector("main"));
  add("stage", t("region.stage"), document.getElementById("region-stage"));
  add("strip", t("export.strip"), document.querySelector("#region-stage .strip"));
  for (const heading of document.querySelectorAll("main .panel-title")) {
    const element = heading.closest("section, figure, .panel, .memory-map");
    const title = titleOf(heading);
    if (element && title) add(element.id || element.className.split(" ").at(-1), title, element);
  }
  return found;
}

export const panelOf = (key) => panels().find((panel) => panel.key === key) ?? null;

const visible = (element) => element.getClientRects().length > 0 && element.clientWidth > 0 && element.clientHeight > 0;

/** The words of a heading, without marks of fidelity and without buttons. */
function titleOf(heading) {
  const copy = heading.cloneNode(true);
  for (const part of copy.querySelectorAll(".fidelity, button, select, input, .visually-hidden")) part.remove();
  return copy.textContent.trim();
}
