// Records side by side: each one's figures, and the ratio to the first.

import { inLanguage, t } from "../i18n/words.js";
import { html } from "../kit/html.js";
import { GainText } from "./findings.js";
import { gainOf } from "./gains.js";
import { highest, placesOf, pointAt, variantsOf } from "./record.js";
import { machineText } from "./where.js";
import { atText, estimateText, measureOf } from "./words.js";

/** @import {Figure, MetricInfo} from "./record.js" */
/** @import {Shown} from "./store.js" */

/**
 * Return the ratio of another machine's figure to the first one's. The runs were not interleaved, so its interval is
 * the widest that both intervals allow; null if the denominator is 0.
 * @param {Figure} first
 * @param {Figure} other
 */
export function ratioOf(first, other) {
  if (first.median <= 0 || first.low <= 0) return first.median === other.median ? { median: 1, low: 1, high: 1 } : null;
  return { median: other.median / first.median, low: other.low / first.high, high: other.high / first.low };
}

/** @param {{all: Shown[], labels: Map<string, string>, metric: string}} props the first record is the reference */
export function Differences({ all, labels, metric }) {
  const records = all.map(({ record }) => record);
  const info = records.find((record) => record.metrics[metric])?.metrics[metric];
  if (!info) return null;
  const measure = measureOf(info.unit, highest(records, metric));
  const caption = t("bench.difference.caption", { metric: inLanguage(info.title) });
  const variants = variantsOf(records);
  /** @type {(figure: Figure | undefined) => import("../kit/html.js").Children} */
  const value = (figure) => html`<td>${figure ? estimateText(figure, info.unit, measure) : "–"}</td>`;
  return html`<section class="bench-differences" aria-labelledby="bench-differences">
    <h3 id="bench-differences">${caption}</h3>
    <div class="bench-scroll" tabindex="0" role="region" aria-label=${caption}>
      <table class="bench-table num">
        <caption class="visually-hidden">${caption}</caption>
        <thead>
          <tr>
            <th scope="col">${inLanguage(records[0].scenario.axis.title)}</th>
            <th scope="col">${t("bench.table.variant")}</th>
            ${all.map(
              ({ id, record }, i) => html`<th scope="col" key=${id}>
                ${labels.get(id)}<br /><span class="unit">${machineText(record)}</span>
              </th>
              ${i ? html`<th scope="col" class="difference">${t("bench.difference")}</th>` : null}`,
            )}
          </tr>
        </thead>
        ${placesOf(records).map((where) => {
          const rows = variants.flatMap((variant) => {
            const figures = records.map((record) => pointAt(record, where.at, variant.id)?.figures[metric]);
            return figures.some(Boolean) ? [{ variant, figures }] : [];
          });
          return html`<tbody key=${where.at}>
            ${rows.map(
              ({ variant, figures }, i) => html`<tr class=${i ? "" : "first"} key=${variant.id}>
                ${i ? null : html`<th scope="rowgroup" rowspan=${rows.length}>${atText(where)}</th>`}
                <th scope="row" class="variant">${inLanguage(variant.title)}</th>
                ${figures.map(
                  (figure, place) => html`${value(figure)}
                    ${
                      place
                        ? html`<td class="difference">
                          <${Difference} metric=${metric} info=${info} first=${figures[0]} other=${figure} />
                        </td>`
                        : null
                    }`,
                )}
              </tr>`,
            )}
          </tbody>`;
        })}
      </table>
    </div>
  </section>`;
}

/** @param {{metric: string, info: MetricInfo, first: Figure | undefined, other: Figure | undefined}} props */
function Difference({ metric, info, first, other }) {
  const ratio = first && other ? ratioOf(first, other) : null;
  return ratio ? html`<${GainText} gain=${gainOf(metric, info, ratio)} />` : html`–`;
}
