// Both runs in numbers: each request, then totals of blocks, decisions, work and time.

import { bytesText, countText, grouped, secondsText, t } from "../../i18n/words.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { tips } from "../../kit/tooltip.js";
import { differingOperations, FIGURES, isUnsaid, linesOf, SIDES } from "./comparison.js";
import { keyOf } from "./token_rows.js";

/** @import {Answer, Kind, SequenceFigures, SequencePair, SeriesPoint, Side} from "./comparison.js" */

/** @param {{now: Answer}} props */
export function Tables({ now }) {
  return html`<div class="compare-tables">
    <${Requests} now=${now} />
    <${Totals} now=${now} />
    <${Charts} now=${now} />
  </div>`;
}

/**
 * `clock` marks a measured time; its differences are not highlighted.
 *
 * @typedef {{
 *   key: string,
 *   of: (figures: SequenceFigures) => number | null,
 *   text: (value: number) => string,
 *   clock?: boolean,
 * }} Column
 * @type {Column[]}
 */
const COLUMNS = [
  { key: "tokens", of: (s) => s.tokens.length, text: grouped },
  { key: "cached", of: (s) => s.num_cached_tokens, text: grouped },
  { key: "computed", of: (s) => s.computed_tokens, text: grouped },
  { key: "preemptions", of: (s) => s.num_preemptions, text: grouped },
  { key: "blocks", of: (s) => s.blocks_peak, text: grouped },
  { key: "ttft", of: (s) => s.ttft, text: secondsText, clock: true },
  { key: "seconds", of: (s) => s.seconds, text: secondsText, clock: true },
];

/** Name of a derived figure with its formula. @param {string} text @param {string} name */
const derived = (text, name) => [
  text,
  " ",
  html`<${Fidelity} kind="derived" formula=${t(`compare.formula.${name}`)} />`,
];

/** @param {{now: Answer}} props */
function Requests({ now }) {
  const title = t("compare.requests");
  return html`<section class="compare-scroll" tabindex="0" data-arrows role="group" aria-label=${title}>
    <table class="compare-table num" id="compare-requests">
      <thead>
        <tr>
          <th scope="col">${title}</th>
          <td></td>
          ${COLUMNS.map(({ key }) => html`<th scope="col" key=${key}>${derived(t(`compare.column.${key}`), key)}</th>`)}
        </tr>
      </thead>
      ${now.sequences.map(
        (pair) => html`<tbody key=${keyOf(pair)} data-request=${pair.request_id}>
          ${SIDES.map((side) => html`<${RequestRow} key=${side} pair=${pair} side=${side} />`)}
        </tbody>`,
      )}
    </table>
  </section>`;
}

/** @param {{pair: SequencePair, side: Side}} props */
function RequestRow({ pair, side }) {
  const name = pair.member ? `${pair.request_id} · ${pair.member + 1}` : pair.request_id;
  return html`<tr>
    ${side === "a" ? html`<th scope="rowgroup" rowspan="2">${name}</th>` : null}
    <th scope="row" class=${side}>${side.toUpperCase()}</th>
    ${COLUMNS.map(({ key, of, text, clock }) => {
      const [a, b] = [pair.a && of(pair.a), pair.b && of(pair.b)];
      const value = side === "a" ? a : b;
      const kind = !clock && pair.a && pair.b && a !== b ? "differs" : "";
      return html`<td key=${key} data-figure=${key} class=${kind}>${value === null ? "–" : text(value)}</td>`;
    })}
  </tr>`;
}

/** @type {Record<Kind, (value: number) => string>} */
const TEXT = { count: grouped, bytes: bytesText, seconds: secondsText, flops: countText };
/** @type {Partial<Record<Kind, (value: number) => string>>} */
const EXACT = { bytes: (n) => `${grouped(n)} B`, flops: (n) => `${grouped(n)} FLOP` };

/** @param {{now: Answer}} props */
function Totals({ now }) {
  const operations = differingOperations(now);
  // the log of a monitored server may lack operations that did happen
  const cell = (/** @type {Side} */ side, /** @type {number} */ n) =>
    n || !isUnsaid(now, side, "num_steps") ? grouped(n) : "?";
  const times = operations.map(
    ([type, a, b]) => html`<span key=${type}><code>${type}</code> ${cell("a", a)} / ${cell("b", b)}</span>`,
  );
  return html`<table class="compare-table num" id="compare-totals">
    <thead>
      <tr>
        <th scope="col">${t("compare.whole")}</th>
        <th scope="col" class="a">A</th>
        <th scope="col" class="b">B</th>
        <th scope="col">B − A</th>
      </tr>
    </thead>
    ${FIGURES.map(
      ([group, rows]) => html`<tbody key=${group}>
        ${rows.map(([name, kind]) => {
          const [a, b] = SIDES.map((side) => (isUnsaid(now, side, name) ? null : now[side].totals[name]));
          return html`<${Row} key=${name} name=${name} kind=${kind} a=${a} b=${b} unsaid=${now.unsaid} />`;
        })}
      </tbody>`,
    )}
    ${
      operations.length
        ? html`<tbody>
          <tr>
            <th scope="row">${derived(t("compare.operations"), "operations")}</th>
            <td colspan="3"><div class="compare-operations">${times}</div></td>
          </tr>
        </tbody>`
        : null
    }
  </table>`;
}

/** @param {{name: string, kind: Kind, a: number | null, b: number | null, unsaid: Answer["unsaid"]}} props */
function Row({ name, kind, a, b, unsaid }) {
  const exact = EXACT[kind];
  const isKnown = a !== null && b !== null;
  const tipProps = exact && isKnown ? { tabindex: 0, ...tips(() => [`A ${exact(a)}`, `B ${exact(b)}`]) } : {};
  return html`<tr data-figure=${name} class=${!isKnown || a === b ? "" : "differs"}>
    <th scope="row">${derived(t(`compare.total.${name}`), name)}</th>
    <${Value} kind=${kind} value=${a} source=${unsaid.source_a} />
    <${Value} kind=${kind} value=${b} source=${unsaid.source_b} />
    <td ...${tipProps}>${isKnown ? differenceText(kind, a, b) : "–"}</td>
  </tr>`;
}

/**
 * Cell of a value, which is null if the run's log does not report it.
 * @param {{kind: Kind, value: number | null, source: string}} props
 */
function Value({ kind, value, source }) {
  if (value !== null) return html`<td>${TEXT[kind](value)}</td>`;
  const why = t("compare.unsaid", { source });
  return html`<td class="is-unsaid" tabindex="0" aria-label=${why} ...${tips(() => [why])}>?</td>`;
}

/** Format b − a with its sign; "=" if they are equal. @param {Kind} kind @param {number} a @param {number} b */
export function differenceText(kind, a, b) {
  return a === b ? "=" : `${b > a ? "+" : "−"}${TEXT[kind](Math.abs(b - a))}`;
}

const [WIDE, HIGH] = [300, 60]; // size of a chart's box; the top 2 px are left free for the line

/** Charts of memory and time over steps, both runs on one scale. @param {{now: Answer}} props */
function Charts({ now }) {
  return html`<div class="compare-charts">
    <${Chart} now=${now} name="memory" of=${(/** @type {SeriesPoint} */ point) => point.bytes_held} text=${bytesText} />
    <${Chart} now=${now} name="time" of=${(/** @type {SeriesPoint} */ point) => point.seconds} text=${secondsText} />
    <p class="compare-legend"><span class="a">A</span> <span class="b">B</span></p>
  </div>`;
}

/** @param {{now: Answer, name: string, of: (point: SeriesPoint) => number, text: (value: number) => string}} props */
function Chart({ now, name, of, text }) {
  const { a, b, steps, max } = linesOf(now, of);
  const path = (/** @type {number[][]} */ line) =>
    line.map(([x, y], i) => `${i ? "L" : "M"}${(x * WIDE).toFixed(1)} ${(HIGH - y * (HIGH - 2)).toFixed(1)}`).join("");
  const label = t(`compare.chart.${name}.label`, { most: text(max), steps: grouped(steps) });
  return html`<figure class="compare-chart">
    <figcaption>${derived(t(`compare.chart.${name}`), `chart_${name}`)}</figcaption>
    <svg viewBox=${`0 0 ${WIDE} ${HIGH + 2}`} preserveAspectRatio="none" role="img" aria-label=${label}>
      <path class="a" d=${path(a)} /><path class="b" d=${path(b)} />
    </svg>
    <p class="compare-scale num">
      <span>${t("compare.chart.most", { most: text(max) })}</span>
      <span>${t("compare.chart.steps", { n: grouped(steps) })}</span>
    </p>
  </figure>`;
}
