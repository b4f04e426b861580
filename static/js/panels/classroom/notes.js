// Speaker's notes: what the lesson on the wall says where it stands, and what comes next.

import { html } from "../../kit/html.js";
import { barrier, opened } from "../../state/lessons.js";
import { stemText } from "../../tell/questions.js";
import { t } from "../../tell/words.js";

/** @typedef {import("../../state/lessons.js").Item} Item */

export function Notes() {
  const now = opened.value;
  if (!now) return html`<p class="hint">${t("class.notes_none")}</p>`;
  const section = now.items.at(-1)?.section;
  const texts = now.items.filter((item) => item.kind === "text" && item.section === section);
  return html`<div class="class-notes"><p class="panel-title">${now.title} · ${t("class.progress", {
    i: (section ?? 0) + 1,
    n: now.progress.num_sections,
  })}</p>
    ${texts.map((item) => (item.kind === "text" ? html`<p key=${item.index}>${said(item.blocks)}</p>` : null))}
    <p class="class-notes-next">${nextText(barrier.value)}</p></div>`;
}

/** @param {Item | null} item */
function nextText(item) {
  if (item?.kind === "ask") return t("class.next.ask", { question: stemText(item) });
  if (item?.kind === "do") return t("class.next.do", { what: t(`class.verb.${item.action.verb}`) });
  return item ? t(`class.next.${item.kind}`) : t("class.next.end");
}

/** The words of a tree of Markdown. @param {unknown} nodes @returns {string} */
export function said(nodes) {
  if (typeof nodes === "string") return nodes;
  if (!Array.isArray(nodes)) return "";
  return nodes
    .map((node) => (typeof node === "string" ? node : said(/** @type {{children?: unknown}} */ (node).children)))
    .join("");
}
