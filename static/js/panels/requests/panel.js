// The requests of a run as a table that can be sorted and searched; each opens its story. Beside it, or in its place
// where there is no room beside it: the story that is open, else what to look at first.

import { useMemo } from "../../../vendor/preact/hooks.js";
import { signal } from "../../../vendor/signals/signals.js";
import { jumpTo } from "../../control/playback.js";
import { foundRows, requestFigures } from "../../core/requests.js";
import { storyOf } from "../../core/stories.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { withValue } from "../../kit/inputs.js";
import { useBox } from "../../kit/measure.js";
import { settings } from "../../state/settings.js";
import { connection, log, numRecords, status, viewIndex } from "../../state/store.js";
import { grouped, t } from "../../tell/words.js";
import { orderOf } from "./columns.js";
import { Lists } from "./lists.js";
import { Story } from "./story.js";
import { Table } from "./table.js";

const WIDE = 860; // px: table and story have room beside each other

/** @typedef {"table" | "story" | "lists"} View what is in front, where not all has room */

/**
 * A link that names a sequence opens its story.
 *
 * @type {import("../../../vendor/signals/signals.js").Signal<View>}
 */
const view = signal(settings.seq.peek() === null ? "table" : "story");

/**
 * Choose a sequence: it is on the stage, and its story is told. One that has not come yet is shown where it comes.
 *
 * @param {number} seq
 */
function open(seq) {
  const now = log.peek();
  const arrival = now && storyOf(now, seq)?.moments[0].record;
  if (arrival && arrival > viewIndex.peek()) jumpTo(arrival);
  settings.seq.value = seq;
  view.value = "story";
}

export function Panel() {
  const [box, size] = useBox();
  const arriving = connection.value === "replay" && numRecords.value < (status.value?.num_records ?? 0);
  const figures = log.value && numRecords.value ? requestFigures(log.value, arriving) : null;
  const rows = figures?.rows ?? [];
  const [find, sort] = [settings.find.value, settings.sort.value];
  const found = useMemo(() => {
    const { column, down } = orderOf(sort);
    return foundRows(rows, find ?? "", column, down);
  }, [rows, find, sort]);
  const row = rows.find((one) => one.seq === settings.seq.value);
  const wide = size.width >= WIDE;
  const shown = view.value === "story" && !row ? "table" : view.value;
  const story = row && (shown === "story" || (wide && shown === "table"));
  if (!figures || !rows.length)
    return html`<div class="requests" ref=${box}><p class="hint">${t("requests.empty")}</p></div>`;
  return html`<div class="requests" id="requests" data-wide=${wide} data-view=${shown} ref=${box}>
    <${Head} found=${found.length} all=${rows.length} wide=${wide} shown=${shown} />
    ${wide || shown === "table" ? html`<${Table} rows=${found} open=${open} />` : null}
    ${
      story
        ? html`<${Story} row=${row} close=${() => (view.value = wide ? "lists" : "table")} />`
        : wide || shown === "lists"
          ? html`<${Lists} figures=${figures} open=${open} />`
          : null
    }
  </div>`;
}

/** @param {{found: number, all: number, wide: boolean, shown: View}} props how many rows were found, of how many */
function Head({ found, all, wide, shown }) {
  return html`<header class="requests-head">
    <input type="search" id="requests-find" value=${settings.find.value ?? ""} placeholder=${t("requests.find")}
      aria-label=${t("requests.find")} onInput=${withValue((text) => (settings.find.value = text || null))} />
    <span class="hint num" role="status">${
      found === all
        ? t("requests.all", { n: grouped(all), count: all })
        : t("requests.found", { n: grouped(found), all: grouped(all) })
    } <${Fidelity} kind="derived" formula=${t("requests.formula")} /></span>
    ${
      wide
        ? null
        : html`<span class="segmented-small" role="group" aria-label=${t("requests.view")}>
          ${
            /** @type {const} */ (["table", "lists"]).map(
              (name) => html`<button key=${name} id=${`requests-${name}`} aria-pressed=${shown === name}
              onClick=${() => (view.value = name)}>${t(`requests.view.${name}`)}</button>`,
            )
          }
        </span>`
    }
  </header>`;
}
