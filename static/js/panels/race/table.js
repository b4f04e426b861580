// The lanes: the slots of each, and below them its numbers.

import { useEffect } from "../../../vendor/preact/hooks.js";
import { ridge } from "../../core/metrics.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { Segmented } from "../../kit/segmented.js";
import { tips } from "../../kit/tooltip.js";
import { roofs, wantRoofs } from "../../net/machine.js";
import { bytesText, grouped, intensityText, secondsText, t } from "../../tell/words.js";
import { copying, lanes, names, SETS } from "./model.js";
import { player } from "./player.js";
import { LaneStrip, Legend } from "./strip.js";

/**
 * @typedef {import("../../core/log.js").TraceLog} TraceLog
 * @typedef {import("./figures.js").Lane} Lane
 * @typedef {"computed" | "kept" | "wasted" | "transient" | "flops" | "bytes" | "seconds"} StepKey
 * @typedef {"intensity" | "copied" | "storage" | "totalCopied"} CountedKey
 * @typedef {StepKey | CountedKey | "totalComputed" | "totalFlops" | "totalBytes" | "totalSeconds"} Key
 *
 * `about`: what it says when it is pointed at.
 * @typedef {{
 *   key: Key,
 *   column: string,
 *   text: (value: number) => string,
 *   fidelity?: "captured" | "derived",
 *   about?: (lane: Lane, key: Key, strategy: string) => string[],
 * }} Column
 */

/** @typedef {[group: string, columns: Column[]]} Group */

/** @type {Group} */
const TOKENS = [
  "tokens",
  [
    { key: "computed", column: "step", text: grouped, fidelity: "captured" },
    { key: "totalComputed", column: "total", text: grouped, fidelity: "derived" },
  ],
];
/** @type {Group} */
const TIME = [
  "time",
  [
    { key: "seconds", column: "step", text: secondsText },
    { key: "totalSeconds", column: "total", text: secondsText },
  ],
];
/** @type {Group[]} */
const OF_STRATEGIES = [
  TOKENS,
  [
    "memory",
    [
      { key: "kept", column: "kept", text: bytesText, about: memoryAbout },
      { key: "transient", column: "transient", text: bytesText, about: memoryAbout },
      { key: "wasted", column: "wasted", text: bytesText, about: memoryAbout },
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
    "bytes",
    [
      { key: "bytes", column: "step", text: bytesText, about: exactBytes },
      { key: "totalBytes", column: "total", text: bytesText, about: exactBytes },
      { key: "intensity", column: "intensity", text: intensityText, about: sideAbout },
    ],
  ],
  TIME,
];
/** @type {Group[]} */
const OF_CACHES = [
  TOKENS,
  [
    "reserved",
    [
      { key: "kept", column: "kept", text: bytesText, about: memoryAbout },
      { key: "wasted", column: "wasted", text: bytesText, about: memoryAbout },
    ],
  ],
  ["tensors", [{ key: "storage", column: "storage", text: bytesText, about: exactBytes, fidelity: "captured" }]],
  [
    "copied",
    [
      { key: "copied", column: "step", text: bytesText, about: copiedAbout, fidelity: "captured" },
      { key: "totalCopied", column: "total", text: bytesText, about: exactBytes, fidelity: "derived" },
    ],
  ],
  TIME,
];
const MARKED = new Set(["tokens", "tensors", "copied"]); // their columns say for themselves how they are known

const columnsOf = (/** @type {Group[]} */ groups) =>
  groups.flatMap(([group, columns]) => columns.map((column) => ({ ...column, group })));
const COLUMNS = { strategies: columnsOf(OF_STRATEGIES), caches: columnsOf(OF_CACHES) };
const columns = () => COLUMNS[copying.value ? "caches" : "strategies"];
const groups = () => (copying.value ? OF_CACHES : OF_STRATEGIES);

const NAME_COLUMNS = 3; // a lane's name is as wide as so many of its numbers; its slots have the rest
const OWN_NAME = new Set(["kept", "transient", "wasted", "intensity"]);

/** @param {{logs: TraceLog[] | null, now: import("./figures.js").Race | null}} props */
export function Lanes({ logs, now }) {
  useEffect(wantRoofs, []);
  const bytes = logs ? grouped(logs[0].header.kv_bytes_per_token) : "–";
  const title = (/** @type {string} */ key) => t(`race.column.${key}`);
  return html`<div class="race-table">
    <div class="race-head">
      <${Segmented} label=${t("race.lanes")} name="lanes" choices=${Object.keys(SETS)}
        text=${(/** @type {string} */ set) => t(`race.lanes.${set}`)} />
      <${Legend} />
    </div>
    <table class=${copying.value ? "race-lanes caches num" : "race-lanes num"}>
      <colgroup>
        ${columns().map(({ key }) => html`<col class=${`col-${key}`} />`)}
      </colgroup>
      <thead>
        <tr>
          ${groups().map(([group, { length }]) => {
            const kind = MARKED.has(group) ? undefined : "derived";
            const formula = t(`race.formula.${group}`, { bytes });
            return html`<th colspan=${length} scope="colgroup">${title(group)}${mark(kind, formula)}</th>`;
          })}
        </tr>
        <tr>
          ${columns().map(
            ({ column, fidelity }) =>
              html`<th scope="col">${title(column)}${mark(fidelity, t("race.formula.tokens"))}</th>`,
          )}
        </tr>
      </thead>
      ${names().map(
        (name, i) =>
          html`<${LaneRows} key=${lanes.value[i]} name=${name} index=${i} logs=${logs}
            lane=${now?.lanes[i] ?? null} />`,
      )}
    </table>
  </div>`;
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
    data-strategy-lane=${lanes.value[index]}
    data-finished=${Boolean(lane?.finished)}
    onClick=${() => player.choose(index)}
  >
    <tr>
      <th scope="rowgroup" colspan=${NAME_COLUMNS}>
        <button class="runs-lane" aria-pressed=${shown} title=${t("runs.on_stage", { name })}>${name}</button>
      </th>
      <td class="race-strip-cell" colspan=${columns().length - NAME_COLUMNS}>
        <${LaneStrip} name=${name} index=${index} lane=${lane} logs=${logs} />
      </td>
    </tr>
    <tr>
      ${columns().map(({ key, group, column, text, about }) => {
        const label = nameOf(group, column);
        const value = lane?.[key] ?? null;
        const told =
          about && lane && value !== null ? { tabindex: 0, ...tips(() => about(lane, key, lanes.value[index])) } : {};
        return html`<td data-figure=${key} data-label=${label} ...${told}>${value === null ? "–" : text(value)}</td>`;
      })}
    </tr>
  </tbody>`;
}

/**
 * @param {Lane} lane
 * @param {Key} key
 */
function exactBytes(lane, key) {
  return [t("memory.exact", { n: grouped(lane[key] ?? 0) })];
}

/**
 * @param {Lane} lane
 * @param {Key} key
 */
function memoryAbout(lane, key) {
  return [...exactBytes(lane, key), t("race.used", { bytes: bytesText(lane.used), exact: grouped(lane.used) })];
}

/**
 * What a step copied, beside what the formula says that it would.
 * @param {Lane} lane
 * @param {Key} key
 * @param {string} strategy
 */
function copiedAbout(lane, key, strategy) {
  if (strategy !== "concat" && strategy !== "dynamic") return [...exactBytes(lane, key), t("race.copied.in_place")];
  const [read, bytes] = [lane.slots?.read ?? 0, lane.used / ((lane.slots?.read ?? 0) + lane.computed)];
  const values = { read: grouped(read), bytes: grouped(bytes), product: grouped(read * bytes) };
  return [...exactBytes(lane, key), t("race.copied.formula", values)];
}

/**
 * On which side of the machine's ridge a step lies: what bounds it. Nothing where nobody measured the machine.
 * @param {Lane} lane
 */
function sideAbout({ flops, bytes, intensity }) {
  const formula = t("race.intensity.formula", { flops: grouped(flops), bytes: grouped(bytes) });
  const known = roofs.value;
  if (typeof known !== "object" || intensity === null) return [formula];
  const side = intensity < ridge(known) ? "memory" : "arithmetic";
  return [formula, t(`race.intensity.${side}`, { ridge: intensityText(ridge(known)) })];
}

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

/**
 * What a figure is called where there is no head of columns; a column with a name of its own needs no group's.
 *
 * @param {string} group
 * @param {string} column
 */
function nameOf(group, column) {
  const title = t(`race.column.${column}`);
  return OWN_NAME.has(column) ? title : `${t(`race.column.${group}`)} · ${title}`;
}
