// The three lanes in numbers, each above its slots.

import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { tips } from "../../kit/tooltip.js";
import { bytesText, grouped, secondsText, t } from "../../tell/words.js";
import { names, STRATEGIES } from "./model.js";
import { player } from "./player.js";
import { LaneStrip, Legend } from "./strip.js";

/**
 * @typedef {import("../../core/log.js").TraceLog} TraceLog
 * @typedef {import("./figures.js").Lane} Lane
 * @typedef {"computed" | "kept" | "wasted" | "transient" | "flops" | "seconds"} StepKey
 * @typedef {StepKey | "totalComputed" | "totalFlops" | "totalSeconds"} Key
 *
 * `exact`: pointed at, it says its bytes.
 * @typedef {{
 *   key: Key,
 *   column: string,
 *   text: (value: number) => string,
 *   fidelity?: "captured" | "derived",
 *   exact?: boolean,
 * }} Column
 */

/** @type {[group: string, columns: Column[]][]} */
const GROUPS = [
  [
    "tokens",
    [
      { key: "computed", column: "step", text: grouped, fidelity: "captured" },
      { key: "totalComputed", column: "total", text: grouped, fidelity: "derived" },
    ],
  ],
  [
    "memory",
    [
      { key: "kept", column: "kept", text: bytesText, exact: true },
      { key: "transient", column: "transient", text: bytesText, exact: true },
      { key: "wasted", column: "wasted", text: bytesText, exact: true },
    ],
  ],
  [
    "flops",
    [
      { key: "flops", column: "step", text: operationsText },
      { key: "totalFlops", column: "total", text: operationsText },
    ],
  ],
  [
    "time",
    [
      { key: "seconds", column: "step", text: secondsText },
      { key: "totalSeconds", column: "total", text: secondsText },
    ],
  ],
];
const COLUMNS = GROUPS.flatMap(([group, columns]) => columns.map((column) => ({ ...column, group })));

/** @param {{logs: TraceLog[] | null, now: import("./figures.js").Race | null}} props */
export function Lanes({ logs, now }) {
  const bytes = logs ? grouped(logs[0].header.kv_bytes_per_token) : "–";
  const title = (/** @type {string} */ key) => t(`race.column.${key}`);
  return html`<div class="race-table"><table class="race-lanes num">
    <thead>
      <tr>
        <td class="race-legend" rowspan="2"><${Legend} /></td>
        ${GROUPS.map(([group, { length }]) => {
          const kind = group === "tokens" ? undefined : "derived"; // the columns of tokens have their own
          const formula = t(`race.formula.${group}`, { bytes });
          return html`<th colspan=${length} scope="colgroup">${title(group)}${mark(kind, formula)}</th>`;
        })}
      </tr>
      <tr>
        ${COLUMNS.map(
          ({ column, fidelity }) =>
            html`<th scope="col">${title(column)}${mark(fidelity, t("race.formula.tokens"))}</th>`,
        )}
      </tr>
    </thead>
    ${names().map(
      (name, i) =>
        html`<${LaneRows} key=${STRATEGIES[i]} name=${name} index=${i} lane=${now?.lanes[i] ?? null} logs=${logs} />`,
    )}
  </table></div>`;
}

/**
 * How a column's figures came to be known, if it says so.
 * @param {"captured" | "derived" | undefined} kind
 * @param {string} formula
 */
const mark = (kind, formula) => (kind ? [" ", html`<${Fidelity} kind=${kind} formula=${formula} />`] : null);

/**
 * The name chooses the lane that is on the stage.
 * @param {{name: string, index: number, lane: Lane | null, logs: TraceLog[] | null}} props
 */
function LaneRows({ name, index, lane, logs }) {
  const shown = player.chosen.value === index;
  return html`<tbody
    class=${shown ? "race-lane shown" : "race-lane"}
    data-strategy-lane=${STRATEGIES[index]}
    data-finished=${Boolean(lane?.finished)}
    onClick=${() => player.choose(index)}
  >
    <tr>
      <th scope="row">
        <button class="runs-lane" aria-pressed=${shown} title=${t("runs.on_stage", { name })}>${name}</button>
      </th>
      ${COLUMNS.map(({ key, group, column, text, exact }) => {
        const title = t(`race.column.${column}`);
        const label = exact ? title : `${t(`race.column.${group}`)} · ${title}`; // where there is no head of columns
        const about = exact && lane ? { tabindex: 0, ...tips(() => exactly(lane, key)) } : {};
        return html`<td data-figure=${key} data-label=${label} ...${about}>${lane ? text(lane[key]) : "–"}</td>`;
      })}
    </tr>
    <tr>
      <td class="race-strip-cell" colspan="10">
        <${LaneStrip} name=${name} index=${index} lane=${lane} logs=${logs} />
      </td>
    </tr>
  </tbody>`;
}

/**
 * @param {Lane} lane
 * @param {Key} key
 */
const exactly = (lane, key) => [
  t("memory.exact", { n: grouped(lane[key]) }),
  t("race.used", { bytes: bytesText(lane.used), exact: grouped(lane.used) }),
];

/**
 * Operations with a decimal prefix: 11.4 M.
 * @param {number} count
 */
export function operationsText(count) {
  const units = ["", "K", "M", "G", "T", "P"];
  let unit = 0;
  let value = count;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${Number(value.toPrecision(3))}${unit ? `\u2009${units[unit]}` : ""}`;
}
