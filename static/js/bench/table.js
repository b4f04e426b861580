// Table of all figures of a record: a row per variant and point of the axis, a column per metric.

import { inLanguage, t } from "../i18n/words.js";
import { html } from "../kit/html.js";
import { axisPoints, pointAt, variantTitle } from "./record.js";
import { traceAddress } from "./store.js";
import { atText, estimateText, highestOf, measureOf } from "./words.js";

/** @import {MetricInfo, Point} from "./record.js" */
/** @import {Shown} from "./store.js" */
/** @import {Measure} from "./words.js" */

/** @typedef {{name: string, info: MetricInfo, measure: Measure}} Column metric, and the format of its values */

/** @param {{shown: Shown, label: string}} props `label`: of the record */
export function Figures({ shown, label }) {
  const { record, entry } = shown;
  const columns = Object.entries(record.metrics).map(([name, info]) => {
    return { name, info, measure: measureOf(info.unit, highestOf(record, name)) };
  });
  const anyTrace = record.points.some((point) => traceAddress(entry, point));
  const caption = `${label}. ${t("bench.table.caption")}`;
  return html`<div class="bench-scroll" tabindex="0" role="region" aria-label=${caption}>
    <table class="bench-table num">
      <caption class="visually-hidden">${caption}</caption>
      <thead>
        <tr>
          <th scope="col">${inLanguage(record.scenario.axis.title)}</th>
          <th scope="col">${t("bench.table.variant")}</th>
          ${columns.map(({ name, info, measure: { unit } }) => {
            const unitLine = unit ? html`<br /><span class="unit">${unit}</span>` : null;
            return html`<th scope="col" key=${name}>${inLanguage(info.title)}${unitLine}</th>`;
          })}
          <th scope="col">${t("bench.table.tokens")}</th>
          ${anyTrace ? html`<th scope="col">${t("bench.table.trace")}</th>` : null}
        </tr>
      </thead>
      ${axisPoints(record).map((where) => {
        const points = record.scenario.variants.flatMap((variant) => pointAt(record, where.at, variant.id) ?? []);
        const shared = { record, entry, columns, anyTrace, at: atText(where) };
        return html`<tbody key=${where.at}>
          ${points.map(
            (point, i) =>
              html`<${Row} key=${point.variant} ...${shared} point=${point} rows=${i ? 0 : points.length} />`,
          )}
        </tbody>`;
      })}
    </table>
  </div>`;
}

/**
 * `rows`: for the first row of a point, the number of rows that its axis cell spans; else 0.
 * @typedef {Pick<Shown, "record" | "entry"> & {columns: Column[], anyTrace: boolean, at: string}} Shared
 * @param {Shared & {point: Point, rows: number}} props
 */
function Row({ record, entry, point, at, rows, columns, anyTrace }) {
  const variant = variantTitle(record, point.variant);
  return html`<tr class=${rows ? "first" : ""}>
    ${rows ? html`<th scope="rowgroup" rowspan=${rows}>${at}</th>` : null}
    <th scope="row" class="variant">${variant}</th>
    ${
      point.failed
        ? html`<td class="failed" colspan=${columns.length}>${t("bench.table.failed", { why: point.failed })}</td>`
        : columns.map((column) => html`<${Value} key=${column.name} point=${point} column=${column} />`)
    }
    <td class=${point.tokens_identical === false ? "differ" : ""}>${tokensText(point)}</td>
    ${anyTrace ? html`<${Trace} address=${traceAddress(entry, point)} variant=${variant} at=${at} />` : null}
  </tr>`;
}

/** Return whether the tokens matched the reference. @param {Point} point */
function tokensText({ failed, tokens_identical: identical }) {
  if (failed) return "–";
  return t(`bench.table.${identical === null ? "not_asked" : identical ? "identical" : "differ"}`);
}

/** @param {{address: string | null, variant: string, at: string}} props */
function Trace({ address, variant, at }) {
  if (!address) return html`<td>–</td>`;
  const label = t("bench.table.open_label", { variant, at });
  return html`<td><a href=${address} aria-label=${label}>${t("bench.table.open")}</a></td>`;
}

/** Cell of a figure. The unit is in the column's head. @param {{point: Point, column: Column}} props */
function Value({ point, column: { name, info, measure } }) {
  const figure = point.figures[name];
  if (!figure) return html`<td>–</td>`;
  const [median, interval] = estimateText(figure, info.unit, { ...measure, unit: "" }).split(" [");
  return html`<td>${median}${interval ? html` <span class="interval">[${interval}</span>` : null}</td>`;
}
