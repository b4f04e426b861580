// Sources of the figures of a model, GPU or link, with the dates of publication and of the last check.

import { t } from "../i18n/words.js";
import { withDates } from "../kit/dates.js";
import { html } from "../kit/html.js";
import { Table } from "./table.js";

/**
 * As defined in `engine/accounting/sources.py`. `meanings`: meanings of the factors that use the source's figures.
 *
 * @typedef {{figures: string[], meanings: string[], says: string, dated: string | null, checked: string | null,
 *   against: string}} SourceFacts
 */

/** @param {SourceFacts} cited */
const checkedText = ({ checked, against }) =>
  checked ? t("scale.source.checked", { day: checked, against }) : t("scale.source.unchecked");

/** @param {SourceFacts} cited */
const statementText = ({ says, dated }) => (dated ? t("scale.source.dated", { says, dated }) : says);

/**
 * Sources of the factors of a formula, without duplicates.
 * @param {{factors: {symbol: string, meaning: string}[], sources: SourceFacts[]}} props
 */
export function FactorSources({ factors, sources }) {
  return sources.map((cited) => {
    const own = factors.filter(({ meaning }) => cited.meanings.includes(meaning));
    if (!own.length) return null;
    const symbols = own.map(({ symbol }) => symbol).join(", ");
    return html`<p key=${symbols} class="hint" data-source=${symbols}>
      ${withDates(t("scale.source.of", { symbols, said: statementText(cited), checked: checkedText(cited) }))}
    </p>`;
  });
}

/**
 * Table of all figures of several items, by source.
 * @param {{things: {id: string, name: string, announced?: string | null, sources: SourceFacts[]}[]}} props
 */
export function Sources({ things }) {
  return html`<details class="scale-sources">
    <summary>${t("scale.sources")}</summary>
    <${Table} class="scale-table scale-words" label=${t("scale.sources")}
      heads=${["what", "figures", "stands", "day", "checked"].map((one) => t(`scale.sources.${one}`))}
      rows=${things.flatMap(({ id, name, announced, sources }) =>
        sources.map((cited, at) => ({
          key: `${id} ${at}`,
          "data-figures": cited.figures.join(" "),
          cells: [
            announced && !at ? withDates(t("scale.source.announced", { name, day: announced })) : name,
            cited.figures.join(", "),
            cited.says,
            withDates(cited.dated ?? "–"),
            withDates(checkedText(cited)),
          ],
        })),
      )} />
  </details>`;
}
