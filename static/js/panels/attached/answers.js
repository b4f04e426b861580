// Two questions about a monitored server: why its prefix cache gets no hits, and what it has cached for a prompt.

import { signal } from "../../../vendor/signals/signals.js";
import { t } from "../../i18n/words.js";
import { html } from "../../kit/html.js";
import { withValue } from "../../kit/inputs.js";
import { useAnswer } from "../../kit/use_query.js";
import { cachedFor, idsIn } from "./asked.js";
import { whyNoHits } from "./hits.js";

/**
 * @typedef {import("../../core/observed_cache.js").Heard} Heard
 * @typedef {import("../../core/observed_cache.js").Said} Said
 * @typedef {import("./asked.js").Answer} Answer
 */

const prompt = signal(""); // module state: the text survives when the log outgrows the page

/**
 * @param {{heard: Heard, said: Said, rank: number, index: number, blockSize: number}} props `index`: of the record that
 *   `said` belongs to
 */
export function WhyNoHits({ heard, said, rank, index, blockSize }) {
  const { answer: found } = useAnswer(() => whyNoHits(said, blockSize, () => heard.roots(rank, index)), [said]);
  if (!found) return null;
  return html`<p class="attached-why" data-why=${found.name}><strong>${t("attached.why")}</strong> ${t(
    `attached.why.${found.name}`,
    found.facts,
  )}</p>`;
}

/** @param {{heard: Heard, index: number}} props `index`: of the record after which the cache is queried */
export function AskedFor({ heard, index }) {
  const text = prompt.value;
  const ids = idsIn(text);
  const { answer, problem } = useAnswer(ids && (() => heard.chains(ids, index)), [heard, text, index], heard.still);
  return html`<section class="attached-asked">
    <h3><label for="attached-prompt">${t("attached.asked")}</label></h3>
    <textarea id="attached-prompt" rows="2" spellcheck=${false} aria-describedby="attached-prompt-how" value=${text}
      onInput=${withValue((typed) => (prompt.value = typed))}></textarea>
    <p id="attached-prompt-how"><small>${t("attached.asked.how")}</small></p>
    <div role="status">${
      ids
        ? answer?.map((chains, rank) =>
            cachedFor(chains, ids.length).map(
              (one) => html`<${One} key=${`${rank} ${one.salt}`} answer=${one} count=${ids.length}
                instance=${answer.length > 1 ? rank : null} />`,
            ),
          )
        : text.trim() && html`<p>${t("attached.asked.text")}</p>`
    }${problem && html`<p class="attached-problem" lang="en">${problem}</p>`}</div>
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
