// The requests of a run as a sortable, searchable table. Each opens its timeline. The timeline or the outliers are
// beside the table, or replace it in narrow layouts.

import { useMemo } from "../../../vendor/preact/hooks.js";
import { signal } from "../../../vendor/signals/signals.js";
import { jumpTo } from "../../control/playback.js";
import { foundRows, requestFigures } from "../../core/requests.js";
import { timelineOf } from "../../core/timeline.js";
import { t } from "../../i18n/words.js";
import { html } from "../../kit/html.js";
import { useBox } from "../../kit/measure.js";
import { orderOf } from "../../kit/request_table.js";
import { useEnlargedWhereLow } from "../../runs/side_by_side.js";
import { settings } from "../../state/settings.js";
import { connection, log, numRecords, status, viewIndex } from "../../state/store.js";
import { NAMES, showsLists } from "./columns.js";
import { Head } from "./head.js";
import { Lists } from "./lists.js";
import { Table } from "./table.js";
import { Timeline } from "./timeline.js";

/** @import {View} from "./head.js" */

const WIDE_FROM = 860; // minimum px of width for the table and the timeline side by side

/**
 * Visible part in narrow layouts. A link with a sequence opens its timeline.
 * @type {import("../../../vendor/signals/signals.js").Signal<View>}
 */
const view = signal(settings.seq.peek() === null ? "table" : "story");

/**
 * Show a sequence on the stage and open its timeline. If it is submitted later, move to its submission.
 * @param {number} seq
 */
function openStory(seq) {
  const now = log.peek();
  const arrival = now && timelineOf(now, seq)?.events[0].record;
  if (arrival && arrival > viewIndex.peek()) jumpTo(arrival);
  settings.seq.value = seq;
  view.value = "story";
}

/** @param {{queries: import("../../kit/html.js").Component}} props `queries`: panel of queries over the whole log */
export function Panel({ queries }) {
  useEnlargedWhereLow();
  const [box, size] = useBox();
  const isArriving = connection.value === "replay" && numRecords.value < (status.value?.num_records ?? 0);
  const figures = log.value && numRecords.value ? requestFigures(log.value, isArriving) : null;
  const rows = figures?.rows ?? [];
  const [find, sort] = [settings.find.value, settings.sort.value];
  const [only, client] = [settings.only.value, settings.client.value];
  const found = useMemo(() => {
    const { column, down } = orderOf(sort, NAMES);
    return foundRows(rows, find ?? "", column, down, { only, client });
  }, [rows, find, sort, only, client]);
  const chosen = settings.seq.value;
  const row = chosen === null ? undefined : rows.find(({ parts }) => parts.includes(chosen));
  const isWide = size.width >= WIDE_FROM;
  const shown = view.value === "story" && !row ? "table" : view.value;
  const show = (/** @type {View} */ name) => void (isWide || (view.value = name)); // wide layouts always show the table
  const showsStory = row && (shown === "story" || (isWide && shown === "table"));
  if (!figures || !rows.length)
    return html`<div class="requests" ref=${box}><p class="hint">${t("requests.empty")}</p></div>`;
  const lists = isWide ? showsLists.value : shown === "lists";
  return html`<div class="requests" id="requests" data-wide=${isWide && Boolean(showsStory || lists)} data-view=${shown}
    ref=${box}>
    <${Head} found=${found} all=${rows} isWide=${isWide} shown=${shown} show=${show} />
    ${isWide || shown === "table" ? html`<${Table} rows=${found} all=${rows} open=${openStory} />` : null}
    ${
      showsStory
        ? html`<${Timeline} row=${row} close=${() => (view.value = isWide ? "lists" : "table")} />`
        : lists
          ? html`<${Lists} figures=${figures} open=${openStory} queries=${queries} />`
          : null
    }
  </div>`;
}
