// Timeline of a request, a sentence per event with a link to the event's record.

import { batch } from "../../../vendor/signals/signals.js";
import { jumpTo } from "../../control/playback.js";
import { instanceName } from "../../core/instances.js";
import { kindOf } from "../../core/operation_kinds.js";
import { partsWhere } from "../../core/operations.js";
import { timelineOf } from "../../core/timeline.js";
import { messagesText } from "../../i18n/operations.js";
import { bytesText, grouped, secondsText, sentences, t } from "../../i18n/words.js";
import { Swatch } from "../../kit/colour.js";
import { html } from "../../kit/html.js";
import { Icon } from "../../kit/icon.js";
import { settings } from "../../state/settings.js";
import { log, selected, viewIndex } from "../../state/store.js";

/** @import {Row} from "../../core/requests.js" */
/** @import {TimelineEvent, Wait} from "../../core/timeline.js" */

/** @param {{row: Row, close: () => void}} props */
export function Timeline({ row, close }) {
  const now = log.value;
  const timelines = now ? row.parts.flatMap((seq) => timelineOf(now, seq) ?? []) : [];
  const timeline = timelines.at(-1);
  if (!now || !timeline) return null;
  return html`<section class="request-timeline" aria-labelledby="request-timeline">
    <header>
      <h3 class="panel-title" id="request-timeline"><${Swatch} id=${row.seq} />${row.request}
        <small>${t("sequence.name", { id: row.seq })}</small></h3>
      <button class="tool small" id="request-close" aria-label=${t("requests.close")} title=${t("requests.close")}
        onClick=${close}><${Icon} name="close" /></button>
    </header>
    <p class="request-figures num">${figuresText(row)}</p>
    <ol class="request-life num" tabindex="0" aria-labelledby="request-timeline">
      ${timelines.map(({ events, seq }) =>
        events.map(
          (event) => html`<${TimelineItem} key=${`${event.record}/${event.at}`} ...${{ log: now, event, seq }} />`,
        ),
      )}
      ${timeline.waiting ? html`<li class="request-waits">${waitingText(timeline.waiting)}</li>` : null}
    </ol>
  </section>`;
}

/** Figures of the row in words, independent of the visible columns. @param {Row} row */
function figuresText(row) {
  const parts = [
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
  return parts.join(" · ");
}

/** @param {{ log: import("../../core/log.js").TraceLog, event: TimelineEvent, seq: number, }} props */
function TimelineItem({ log: now, event, seq }) {
  const { record, at, step } = event;
  const { tone } = kindOf(now.records[record].ops?.[at].type ?? "");
  const instance = instanceName(now.header, now.records[record].instance ?? 0);
  const open = () =>
    batch(() => {
      jumpTo(record);
      settings.seq.value = seq;
      selected.value = { record, op: at };
    });
  return html`<li>
    <button class=${`decision ${tone ?? ""}`} aria-current=${viewIndex.value === record ? "step" : undefined}
      onClick=${open}>
      <span class="request-when">${t("requests.record", { record: grouped(record + 1), step: grouped(step) })}${
        instance ? html` <span class="instance">${instance}</span>` : null
      }</span>
      <span>${eventText(now, event)}</span>
    </button>
  </li>`;
}

// Timeline of a sequence in sentences, from core/timeline.js. The command line (app/cli/trace_explain.py) uses the same
// texts.

/** @typedef {Parameters<typeof partsWhere>[0]} Log */

/**
 * Return an event as a sentence: its operation, the cost of resuming, and the wait before it with the reasons.
 * @param {Log} log @param {TimelineEvent} event
 */
export function eventText(log, { record, at, again, wait }) {
  const parts = [messagesText(partsWhere(log, record, (_, place) => place === at))];
  if (again) parts.push(t("timeline.again", { n: again }));
  if (wait?.steps) parts.push(waitText("timeline.waited", wait));
  return sentences(parts);
}

/** Return the text of a wait that lasts until the end of the log. @param {Wait} wait */
export const waitingText = (wait) => waitText("timeline.waits", wait);

/** @param {string} key @param {Wait} wait */
function waitText(key, { steps, behind, deferred, last }) {
  const parts = behind ? [t("timeline.behind", { n: behind })] : [];
  for (const [reason, n] of deferred)
    parts.push(t("timeline.deferred", { n, reason: t(`op.defer.reason.${reason}.chain`) }));
  const needed = last ? [t("timeline.needed", { needed: last.needed, available: last.available })] : [];
  return t(key, { n: steps, reasons: [parts.join(t("join.list")), ...needed].join(t("join.clauses")) });
}
