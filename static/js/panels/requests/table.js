// The request table. Only the visible rows are in the document; all rows have equal height.

import { useLayoutEffect, useMemo } from "../../../vendor/preact/hooks.js";
import { secondsText, t } from "../../i18n/words.js";
import { html } from "../../kit/html.js";
import { useLongList } from "../../kit/long_list.js";
import { useBox } from "../../kit/measure.js";
import { noneText, SortHead, Space } from "../../kit/request_table.js";
import { tips } from "../../kit/tooltip.js";
import { settings } from "../../state/settings.js";
import { shownSeq } from "../../state/store.js";
import { areShort, Bar, scaleOf } from "./bar.js";
import { layoutFor, NAMES, ownStart, showsBars, TEXT_COLUMNS } from "./columns.js";

/** @import {Row} from "../../core/requests.js" */
/** @import {Scale} from "./bar.js" */
/** @import {Column} from "./columns.js" */

const ROW_HEIGHT = 24; // px
const TOUCH_ROW_HEIGHT = 44; // px
const PHONE_WIDTH = 560; // px
const GAP = 8; // px before a bar

/**
 * @param {{rows: readonly Row[], all: readonly Row[], open: (seq: number) => void}} props `rows`: the shown rows,
 *   in their order
 */
export function Table({ rows, all, open }) {
  const [box, size] = useBox();
  const { columns, bar } = layoutFor(size.width || innerWidth, showsBars.value, all, settings.only.value);
  const scale = useMemo(() => scaleOf(rows, ownStart.value ?? areShort(rows)), [rows, ownStart.value]);
  const high = size.width && size.width < PHONE_WIDTH ? TOUCH_ROW_HEIGHT : ROW_HEIGHT;
  const list = useLongList({ box, height: size.height, count: rows.length, high, head: high });
  const { first, last } = list;
  const { find, sort, only, client } = settings;
  useLayoutEffect(list.toTop, [find.value, sort.value, only.value, client.value]); // when the rows change

  return html`<div class="requests-scroll" ref=${box}
    onScroll=${list.scrolled}>
    <table class="requests-table num" aria-label=${t("requests.table")} aria-rowcount=${rows.length + 1}>
      <thead>
        <tr aria-rowindex="1">${columns.map((column) => html`<${Head} key=${column.name} column=${column} />`)}${
          bar ? html`<${BarHead} scale=${scale} width=${bar} />` : null
        }</tr>
      </thead>
      <tbody data-arrows onKeyDown=${list.move}>
        <${Space} rows=${first} high=${high} />
        ${rows.slice(first, last).map(
          (row, i) => html`<${Line} key=${row.seq} ...${{ row, columns, high, open, scale, bar }} at=${first + i}
            focusable=${first + i === list.stop} />`,
        )}
        <${Space} rows=${rows.length - last} high=${high} />
      </tbody>
    </table>
    ${rows.length ? null : html`<p class="hint">${noneText()}</p>`}
  </div>`;
}

/**
 * Time range of the bars, and a toggle to start each bar at the request's submission.
 * @param {{scale: Scale, width: number}} props
 */
function BarHead({ scale: { from, to, own }, width }) {
  return html`<th scope="col" data-column="bar" style=${{ width: `${width}px` }}>
    <span class="bar-scale"><span>${secondsText(from)}</span>
      <button aria-pressed=${own} onClick=${() => (ownStart.value = !own)} ...${tips(() => [t("requests.tip.own")])}
        >${t(own ? "requests.own" : "requests.whole")}</button>
      <span>${secondsText(to)}</span></span>
  </th>`;
}

/** @param {{column: Column}} props */
const Head = ({ column: { name, width } }) =>
  html`<${SortHead} ...${{ name, names: NAMES, lettered: TEXT_COLUMNS }} width=${name === "request" ? null : width}
    text=${t(`requests.${name}`)} about=${tips(() => [t(`requests.tip.${name}`)])} />`;

/**
 * @param {{
 *   row: Row, at: number, columns: Column[], high: number, open: (seq: number) => void, focusable: boolean,
 *   scale: Scale, bar: number,
 * }} props `at`: index of the row; `bar`: px of the bar, 0: none
 */
function Line({ row, at, columns, high, open, focusable, scale, bar }) {
  const [name, ...figures] = columns;
  const shown = row.parts.includes(settings.seq.value ?? shownSeq.value ?? -1);
  return html`<tr class=${shown ? "shown" : ""} aria-rowindex=${at + 2} data-seq=${row.seq}
    style=${{ height: `${high}px` }} onClick=${() => open(row.seq)}>
    <th scope="row"><button data-row=${at} tabindex=${focusable ? 0 : -1} title=${row.request}
      aria-label=${t("requests.open", { request: row.request, name: t("sequence.name", { id: row.seq }) })}
      >${name.text(row)}</button></th>
    ${figures.map((column) => html`<td key=${column.name} data-column=${column.name}>${column.text(row)}</td>`)}
    ${
      bar
        ? html`<td data-column="bar"><${Bar} row=${row} scale=${scale} width=${bar - GAP}
          high=${Math.min(high, ROW_HEIGHT)} /></td>`
        : null
    }
  </tr>`;
}
