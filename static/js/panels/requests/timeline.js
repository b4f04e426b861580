// Story of one request, one sentence per event with a link to its record.

import { batch } from "../../../vendor/signals/signals.js";
import { jumpTo } from "../../control/playback.js";
import { instanceName } from "../../core/instances.js";
import { kindOf } from "../../core/operation_kinds.js";
import { timelineOf } from "../../core/timeline.js";
import { eventText, waitingText } from "../../i18n/timeline.js";
import { bytesText, grouped, secondsText, t } from "../../i18n/words.js";
import { Swatch } from "../../kit/colour.js";
import { html } from "../../kit/html.js";
import { Icon } from "../../kit/icon.js";
import { settings } from "../../state/settings.js";
import { log, selected, viewIndex } from "../../state/store.js";

/** @typedef {import("../../core/requests.js").Row} Row */

/** @param {{row: Row, close: () => void}} props */
export function Timeline({ row, close }) {
  const now = log.value;
  const stories = now ? row.parts.flatMap((seq) => timelineOf(now, seq) ?? []) : [];
  const story = stories.at(-1);
  if (!now || !story) return null;
  return html`<section class="request-story" aria-labelledby="request-story">
    <header>
      <h3 class="panel-title" id="request-story"><${Swatch} id=${row.seq} />${row.request}
        <small>${t("sequence.name", { id: row.seq })}</small></h3>
      <button class="tool small" id="request-close" aria-label=${t("requests.close")} title=${t("requests.close")}
        onClick=${close}><${Icon} name="close" /></button>
    </header>
    <p class="request-figures num">${figuresText(row)}</p>
    <ol class="request-life num" tabindex="0" aria-labelledby="request-story">
      ${stories.map(({ events: moments, seq }) =>
        moments.map(
          (moment) => html`<${Turn} key=${`${moment.record}/${moment.at}`} ...${{ log: now, moment, seq }} />`,
        ),
      )}
      ${story.waiting ? html`<li class="request-waits">${waitingText(story.waiting)}</li>` : null}
    </ol>
  </section>`;
}

/** Figures of the row in words, independent of the visible columns. @param {Row} row */
function figuresText(row) {
  const said = [
    ...(row.client === null ? [] : [t("requests.said.client", { client: row.client })]),
    ...(row.lane ? [t("requests.said.lane", { time: secondsText(row.lane) })] : []),
    t("requests.said.tokens", { prompt: grouped(row.prompt), output: grouped(row.output), hit: grouped(row.hit) }),
    ...(row.queue === null ? [] : [t("requests.said.queue", { time: secondsText(row.queue) })]),
    ...(row.ttft === null ? [] : [`TTFT ${secondsText(row.ttft)}`]),
    ...(row.tpot === null ? [] : [`TPOT ${secondsText(row.tpot)}`]),
    t("requests.said.phases", { prefill: secondsText(row.prefill), decode: secondsText(row.decode) }),
    ...(row.moving ? [t("requests.said.moved", { time: secondsText(row.moving), bytes: bytesText(row.moved) })] : []),
    ...(row.away ? [t("requests.said.away", { time: secondsText(row.away) })] : []),
    ...(row.missed === null ? [] : [t("requests.said.missed", { time: secondsText(row.missed) })]),
    ...(row.preempted ? [t("requests.said.preempted", { n: row.preempted, lost: grouped(row.lost) })] : []),
    ...(row.slow ? [t("requests.said.slow", { n: row.slow })] : []),
  ];
  return said.join(" · ");
}

/**
 * @param {{
 *   log: import("../../core/log.js").TraceLog, moment: import("../../core/timeline.js").TimelineEvent, seq: number,
 * }} props
 */
function Turn({ log: now, moment, seq }) {
  const { record, at, step } = moment;
  const { tone } = kindOf(now.records[record].ops?.[at].type ?? "");
  const instance = instanceName(now.header, now.records[record].instance ?? 0);
  const go = () =>
    batch(() => {
      jumpTo(record);
      settings.seq.value = seq;
      selected.value = { record, op: at };
    });
  return html`<li>
    <button class=${`decision ${tone ?? ""}`} aria-current=${viewIndex.value === record ? "step" : undefined}
      onClick=${go}>
      <span class="request-when">${t("requests.record", { record: grouped(record + 1), step: grouped(step) })}${
        instance ? html` <span class="instance">${instance}</span>` : null
      }</span>
      <span>${eventText(now, moment)}</span>
    </button>
  </li>`;
}
