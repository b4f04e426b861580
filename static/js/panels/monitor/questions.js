// Two queries about a monitored server: the reason for missing prefix cache hits, and the cached part of a prompt.

import { signal } from "../../../vendor/signals/signals.js";
import { t } from "../../i18n/words.js";
import { html } from "../../kit/html.js";
import { withValue } from "../../kit/inputs.js";
import { useQuery } from "../../kit/use_query.js";
import { cachedFor, idsIn } from "./cached_prefix.js";
import { whyNoHits } from "./no_hits.js";

/** @import {ObservedCache, RankReport} from "../../core/observed_cache.js" */
/** @import {Answer} from "./cached_prefix.js" */

const prompt = signal(""); // module state: the text remains when the log becomes too long to load

/**
 * @param {{cache: ObservedCache, report: RankReport, rank: number, index: number, blockSize: number}} props `index`: of
 *   the record that `report` belongs to
 */
export function WhyNoHits({ cache, report, rank, index, blockSize }) {
  const { answer: found } = useQuery(() => whyNoHits(report, blockSize, () => cache.roots(rank, index)), [report]);
  if (!found) return null;
  return html`<p class="monitor-why" data-why=${found.name}><strong>${t("monitor.why")}</strong> ${t(
    `monitor.why.${found.name}`,
    found.facts,
  )}</p>`;
}

/** @param {{cache: ObservedCache, index: number}} props `index`: of the record after which the cache is queried */
export function PromptQuery({ cache, index }) {
  const text = prompt.value;
  const ids = idsIn(text);
  const { answer, problem } = useQuery(ids && (() => cache.chains(ids, index)), [cache, text, index], cache.still);
  return html`<section class="monitor-asked">
    <h3><label for="monitor-prompt">${t("monitor.asked")}</label></h3>
    <textarea id="monitor-prompt" rows="2" spellcheck=${false} aria-describedby="monitor-prompt-how" value=${text}
      onInput=${withValue((typed) => (prompt.value = typed))}></textarea>
    <p id="monitor-prompt-how"><small>${t("monitor.asked.how")}</small></p>
    <div role="status">${
      ids
        ? answer?.map((chains, rank) =>
            cachedFor(chains, ids.length).map(
              (one) => html`<${PromptAnswer} key=${`${rank} ${one.salt}`} answer=${one} count=${ids.length}
                instance=${answer.length > 1 ? rank : null} />`,
            ),
          )
        : text.trim() && html`<p>${t("monitor.asked.text")}</p>`
    }${problem && html`<p class="monitor-problem" lang="en">${problem}</p>`}</div>
  </section>`;
}

/** @param {{answer: Answer, count: number, instance: number | null}} props `count`: tokens of the prompt */
function PromptAnswer({ answer, count, instance }) {
  const { salt, hit, known, groups, limit, outside, next } = answer;
  const where = [
    instance === null ? "" : t("monitor.rank", { n: instance }),
    salt === null ? "" : t("monitor.asked.under", { salt }),
  ].filter(Boolean);
  const text =
    hit === null
      ? t("monitor.asked.unsaid")
      : t(hit || known ? "monitor.asked.hit" : "monitor.asked.none", { n: hit, count });
  const group = (/** @type {import("./cached_prefix.js").GroupHit} */ { group: { id, kind } }) =>
    kind ? t("monitor.asked.group", { id, kind }) : t("monitor.asked.group.only", { id });
  const unsaid = html`<span class="is-unknown" title=${t("monitor.asked.unsaid.why")}>${t("monitor.unknown")}</span>`;
  return html`<div class="monitor-answer">
    <p>${where.length ? html`<strong>${where.join(", ")}</strong> ` : null}${text} ${
      limit
        ? limit.tokens === hit
          ? t("monitor.asked.limit", { group: group(limit), n: Math.max(...groups.map((one) => one.tokens ?? 0)) })
          : t("monitor.asked.limit.ends")
        : hit === null
          ? null
          : t(`monitor.asked.next.${next}`)
    }</p>
    ${
      groups.length > 1
        ? html`<ul>${groups.map(
            (one) =>
              html`<li key=${one.group.id}>${group(one)}: ${
                one.tokens === null ? unsaid : t("monitor.asked.tokens", { n: one.tokens })
              }</li>`,
          )}</ul>`
        : null
    }
    ${outside.map(
      ({ medium, tokens }) => html`<p key=${medium}>${t("monitor.asked.outside", { n: tokens, medium })}</p>`,
    )}
  </div>`;
}
