// Two questions about a watched server: why nothing hits there, and what it has cached for a prompt.

import { useState } from "../../../vendor/preact/hooks.js";
import { contentsOf } from "../../core/cached_contents.js";
import { html } from "../../kit/html.js";
import { log } from "../../state/store.js";
import { t } from "../../tell/words.js";
import { cachedFor, idsIn } from "./asked.js";
import { whyNoHits } from "./hits.js";
import { ranksOf } from "./model.js";
import { standingsOf } from "./standing.js";

/** @typedef {import("./asked.js").Answer} Answer */

/** @param {{instance: number, index: number}} props */
export function WhyNoHits({ instance, index }) {
  const shown = log.value;
  if (!shown) return null;
  const contents = contentsOf(shown);
  const endOf = (/** @type {string} */ hash) => {
    const content = contents.byHash.get(hash);
    return content ? (content.logical + 1) * content.tokens.length : 0;
  };
  const size = Number(shown.header.engine.block_size ?? 1);
  const found = whyNoHits(ranksOf(shown), standingsOf(shown), instance, index, endOf, size);
  if (!found) return null;
  return html`<p class="attached-why" data-why=${found.name}><strong>${t("attached.why")}</strong> ${t(
    `attached.why.${found.name}`,
    found.facts,
  )}</p>`;
}

/** @param {{index: number}} props of the record after which it is asked */
export function AskedFor({ index }) {
  const [text, setText] = useState("");
  const shown = log.value;
  if (!shown) return null;
  const ids = idsIn(text);
  return html`<section class="attached-asked">
    <h3><label for="attached-prompt">${t("attached.asked")}</label></h3>
    <textarea id="attached-prompt" rows="2" spellcheck=${false} aria-describedby="attached-prompt-how" value=${text}
      onInput=${(/** @type {InputEvent} */ event) => setText(/** @type {HTMLTextAreaElement} */ (event.target).value)}
    ></textarea>
    <p id="attached-prompt-how"><small>${t("attached.asked.how")}</small></p>
    <div role="status">${
      ids
        ? standingsOf(shown).map((rank, instance, all) =>
            cachedFor(rank, contentsOf(shown), ids, index).map(
              (answer) => html`<${One} key=${`${instance} ${answer.salt}`} answer=${answer} count=${ids.length}
                instance=${all.length > 1 ? instance : null} />`,
            ),
          )
        : text.trim() && html`<p>${t("attached.asked.text")}</p>`
    }</div>
  </section>`;
}

/** @param {{answer: Answer, count: number, instance: number | null}} props `count`: tokens of the prompt */
function One({ answer, count, instance }) {
  const { salt, hit, known, groups, limit, outside, next } = answer;
  const where = [
    instance === null ? "" : t("attached.rank", { n: instance }),
    salt === null ? "" : t("attached.asked.under", { salt }),
  ].filter(Boolean);
  const said =
    hit === null
      ? t("attached.asked.unsaid")
      : t(hit || known ? "attached.asked.hit" : "attached.asked.none", { n: hit, count });
  const group = (/** @type {import("./asked.js").OfGroup} */ { group: { id, kind } }) =>
    kind ? t("attached.asked.group", { id, kind }) : t("attached.asked.group.only", { id });
  const unsaid = html`<span class="is-unknown" title=${t("attached.asked.unsaid.why")}>${t("attached.unknown")}</span>`;
  return html`<div class="attached-answer">
    <p>${where.length ? html`<strong>${where.join(", ")}</strong> ` : null}${said} ${
      limit
        ? limit.tokens === hit
          ? t("attached.asked.limit", { group: group(limit), n: Math.max(...groups.map((one) => one.tokens ?? 0)) })
          : t("attached.asked.limit.ends")
        : hit === null
          ? null
          : t(`attached.asked.next.${next}`)
    }</p>
    ${
      groups.length > 1
        ? html`<ul>${groups.map(
            (one) =>
              html`<li key=${one.group.id}>${group(one)}: ${
                one.tokens === null ? unsaid : t("attached.asked.tokens", { n: one.tokens })
              }</li>`,
          )}</ul>`
        : null
    }
    ${outside.map(
      ({ medium, tokens }) => html`<p key=${medium}>${t("attached.asked.outside", { n: tokens, medium })}</p>`,
    )}
  </div>`;
}
