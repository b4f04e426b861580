// The request that is chosen, in words: every figure, whatever columns have room, and its turns, each leading to its
// record.

import { jumpTo } from "../../control/playback.js";
import { html } from "../../kit/html.js";
import { grouped, secondsText, t } from "../../tell/words.js";
import { kindOf } from "./spans.js";

/** @typedef {import("../../core/survey.js").SequenceRow} SequenceRow */

/** @param {{one: SequenceRow, at: number}} props */
export function Chosen({ one, at }) {
  return html`<section class="large-chosen num" aria-label=${t("large.chosen", { request: one.request })}>
    <p><strong>${one.request}</strong> ${figuresText(one)}</p>
    <p class="large-turns">${turnsOf(one).map(
      ({ record, text }) => html`<button key=${`${record} ${text}`} class="link"
        aria-current=${record === at ? "step" : undefined}
        onClick=${() => jumpTo(record)}>${text} ${grouped(record)}</button>`,
    )}</p>
  </section>`;
}

/** @param {SequenceRow} one */
const figuresText = (one) =>
  [
    ...(one.client === null ? [] : [t("large.chosen.client", { client: one.client })]),
    t("large.chosen.tokens", { prompt: grouped(one.prompt), hit: grouped(one.hit ?? 0), output: grouped(one.output) }),
    ...(one.waited === null ? [] : [t("large.chosen.waited", { n: grouped(one.waited), count: one.waited })]),
    ...(one.ttft === null ? [] : [`TTFT ${secondsText(one.ttft)}`]),
    ...(one.tpot === null ? [] : [`TPOT ${secondsText(one.tpot)}`]),
    ...(one.preempted ? [t("large.chosen.preempted", { n: one.preempted })] : []),
    ...(one.missed === null ? [] : [t("large.chosen.missed", { time: secondsText(one.missed) })]),
  ].join(" · ");

/**
 * What happened to it, in order: where each span of its time began, and where it ended.
 *
 * @param {SequenceRow} one
 * @returns {{record: number, text: string}[]}
 */
export function turnsOf(one) {
  const lost = one.lost_in < 0 ? [] : [{ record: one.lost_in, text: t("large.chosen.lost") }];
  const turns = one.spans.map(({ kind, first }) => ({ record: first, text: t(`large.status.${kindOf(kind)}`) }));
  const end = one.finished_in < 0 ? [] : [{ record: one.finished_in, text: endText(one) }];
  return [...lost, ...turns, ...end];
}

/** How it ended. @param {SequenceRow} one */
const endText = (one) => t("large.chosen.end", { how: t(`story.end.${one.finish_reason}`) });
