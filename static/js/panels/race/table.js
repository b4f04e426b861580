// Table of the lanes: slots and figures of each.

import { useEffect } from "../../../vendor/preact/hooks.js";
import { doMain, main } from "../../control/playback.js";
import { grouped, t } from "../../i18n/words.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { Icon } from "../../kit/icon.js";
import { Segmented } from "../../kit/inputs.js";
import { tips } from "../../kit/tooltip.js";
import { followRoofs } from "../../net/rooflines.js";
import { lessonRace } from "../../state/lessons.js";
import { columns, groups, MARKED_GROUPS } from "./columns.js";
import { LaneSlots, Legend } from "./lane_slots.js";
import { lanes, names, racing, SETS } from "./model.js";
import { player } from "./player.js";

/** @import {TraceLog} from "../../core/log.js" */
/** @import {LaneFigures} from "./figures.js" */

const NAME_COLUMNS = 3; // columns spanned by a lane's name; its slots take the rest
const NAMED_COLUMNS = new Set(["kept", "transient", "wasted", "intensity", "blocks", "steps"]);

/** @param {{logs: TraceLog[] | null, now: import("./figures.js").Race | null}} props */
export function LaneTable({ logs, now }) {
  useEffect(followRoofs, []);
  const bytes = logs ? grouped(logs[0].header.kv_bytes_per_token) : "–";
  const title = (/** @type {string} */ key) => t(`race.column.${key}`);
  return html`<div class="race-table">
    <div class="race-head">
      ${
        lessonRace.value
          ? html`<${RunButton} />`
          : html`<${Segmented} label=${t("race.lanes")} name="lanes" choices=${Object.keys(SETS)}
              text=${(/** @type {string} */ set) => t(`race.lanes.${set}`)} />`
      }
      <${Legend} />
    </div>
    <table class=${`race-lanes ${racing.value} num`}>
      <colgroup>
        ${columns().map(({ key }) => html`<col class=${`col-${key}`} />`)}
      </colgroup>
      <thead>
        <tr>
          ${groups().map(([group, { length }]) => {
            const kind = MARKED_GROUPS.has(group) ? undefined : "derived";
            const formula = t(`race.formula.${group}`, { bytes });
            const name = group === "tokens" ? "tokens_short" : group;
            return html`<th colspan=${length} scope="colgroup">${title(name)}${mark(kind, formula)}</th>`;
          })}
        </tr>
        <tr>
          ${columns().map(
            ({ column, fidelity, begins }) =>
              html`<th scope="col" data-begins=${begins}
                >${title(column)}${mark(fidelity, t("race.formula.tokens"))}</th>`,
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

/** Button that runs the lesson's lanes, also on phones. */
function RunButton() {
  const now = main.value;
  const text = t(`race.go.${now}`);
  return html`<button class="quiet race-go" id="race-go" onClick=${doMain}><${Icon} name=${now} /> ${text}</button>`;
}

/**
 * Fidelity mark of a column, if it has one.
 * @param {"captured" | "derived" | undefined} kind @param {string} formula
 */
const mark = (kind, formula) => (kind ? [" ", html`<${Fidelity} kind=${kind} formula=${formula} />`] : null);

/**
 * Rows of a lane. A click shows the lane on the stage.
 * @param {{name: string, index: number, lane: LaneFigures | null, logs: TraceLog[] | null}} props
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
      <td class="lane-slots-cell" colspan=${columns().length - NAME_COLUMNS}>
        <${LaneSlots} name=${name} index=${index} lane=${lane} logs=${logs} />
      </td>
    </tr>
    <tr>
      ${columns().map(({ key, group, column, text, tipLines, begins }) => {
        const label = nameOf(group, column);
        const value = lane?.[key] ?? null;
        const attributes =
          tipLines && lane && value !== null
            ? { tabindex: 0, ...tips(() => tipLines(lane, key, lanes.value[index])) }
            : {};
        return html`<td data-figure=${key} data-label=${label} data-begins=${begins}
          ...${attributes}>${value === null ? "–" : text(value)}</td>`;
      })}
    </tr>
  </tbody>`;
}

/**
 * Label of a figure in layouts without column heads. The group is omitted for `NAMED_COLUMNS`.
 * @param {string} group @param {string} column
 */
function nameOf(group, column) {
  const title = t(`race.column.${column}`);
  return NAMED_COLUMNS.has(column) ? title : `${t(`race.column.${group}`)} · ${title}`;
}
