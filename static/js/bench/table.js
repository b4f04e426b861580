// All figures of a record: a line for each variant at each point of the axis, a column for each metric.

import { html } from "../kit/html.js";
import { inLanguage, t } from "../tell/words.js";
import { variantTitle } from "./figure.js";
import { axisPoints, pointAt } from "./record.js";
import { traceAddress } from "./store.js";
import { atText, estimateText, highestOf, measureOf } from "./words.js";

export function Figures({ shown, label }) {
  const { record, entry } = shown;
  const metrics = Object.entries(record.metrics);
  const measures = new Map(metrics.map(([name, info]) => [name, measureOf(info.unit, highestOf(record, name))]));
  const anyTrace = record.points.some((point) => traceAddress(entry, point));
  const caption = `${label}. ${t("bench.table.caption")}`;
  return html`<div class="bench-scroll" tabindex="0" role="region" aria-label=${caption}>
    <table class="bench-table num">
      <caption class="visually-hidden">${caption}</caption>
      <thead>
        <tr>
          <th scope="col">${inLanguage(record.scenario.axis.title)}</th>
          <th scope="col">${t("bench.table.variant")}</th>
          ${metrics.map(([name, info]) => html`<th scope="col" key=${name}>${inLanguage(info.title)}${measures.get(name).unit ? html`<br /><span class="unit">${measures.get(name).unit}</span>` : null}</th>`)}
          <th scope="col">${t("bench.table.tokens")}</th>
          ${anyTrace ? html`<th scope="col">${t("bench.table.trace")}</th>` : null}
        </tr>
      </thead>
      ${axisPoints(record).map((where) => {
        const points = record.scenario.variants.map((variant) => pointAt(record, where.at, variant.id)).filter(Boolean);
        const at = atText(where);
        return html`<tbody key=${where.at}>
          ${points.map((point, i) => html`<${Row} key=${point.variant} record=${record} entry=${entry} point=${point} at=${at} rows=${i ? 0 : points.length} measures=${measures} anyTrace=${anyTrace} />`)}
        </tbody>`;
      })}
    </table>
  </div>`;
}

/** `rows`: of how many lines this is the first, which names the place on the axis for all of them; else 0. */
function Row({ record, entry, point, at, rows, measures, anyTrace }) {
  const metrics = Object.entries(record.metrics);
  const variant = variantTitle(record, point.variant);
  const address = traceAddress(entry, point);
  return html`<tr class=${rows ? "first" : ""}>
    ${rows ? html`<th scope="rowgroup" rowspan=${rows}>${at}</th>` : null}
    <th scope="row" class="variant">${variant}</th>
    ${
      point.failed
        ? html`<td class="failed" colspan=${metrics.length}>${t("bench.table.failed", { why: point.failed })}</td>`
        : metrics.map(([name, info]) => {
            const figure = point.figures[name];
            const measure = measures.get(name);
            return html`<td key=${name}>${figure ? html`<${Value} figure=${figure} unit=${info.unit} measure=${measure} />` : "–"}</td>`;
          })
    }
    <td class=${point.tokens_identical === false ? "differ" : ""}>${point.failed ? "–" : t(point.tokens_identical === null ? "bench.table.not_asked" : point.tokens_identical ? "bench.table.identical" : "bench.table.differ")}</td>
    ${anyTrace ? html`<td>${address ? html`<a href=${address} aria-label=${t("bench.table.open_label", { variant, at })}>${t("bench.table.open")}</a>` : "–"}</td>` : null}
  </tr>`;
}

/** The unit stands in the head of the column. */
function Value({ figure, unit, measure }) {
  const [median, interval] = estimateText(figure, unit, { ...measure, unit: "" }).split(" [");
  return html`${median}${interval ? html` <span class="interval">[${interval}</span>` : null}`;
}
