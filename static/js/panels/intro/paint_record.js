// Picture of a record in the intro view: the query that it computed and its attention.

import { batch } from "../../../vendor/signals/signals.js";
import { wordOf } from "../../core/film.js";
import { RELEASED } from "../../core/groups.js";
import { attentionRow, originOf, vectorOf } from "../../core/sequence_view.js";
import { kvHeadOf } from "../../core/shape.js";
import { isWhole, widestHead } from "../../core/wide_rows.js";
import { t } from "../../i18n/words.js";
import { colours } from "../../kit/colour.js";
import { phases } from "../../state/playhead.js";
import { settings } from "../../state/settings.js";
import { columnsOf, fontOf } from "./geometry.js";
import { COMPLETE, paintAttention, paintColumn, paintWord, rowsOf } from "./paint_attention.js";

/** @import {View} from "../../state/store.js" */

/**
 * Paint the words up to the query and the resulting word. Words that do not fit are dropped at the beginning.
 * @param {CanvasRenderingContext2D} c @param {import("./geometry.js").Size} size @param {View} now
 */
export function paintRecord(c, size, now) {
  const words = now.seq.token_bytes.map(wordOf);
  const { query } = now;
  const shown = query === null ? words : words.slice(0, query + 2);
  const columns = columnsOf(c, shown, size.width, Math.min(34, Math.max(15, 0.12 * size.height)));
  const rows = rowsOf(size, columns, BRACKET_SPACE);
  const { layer, head } = headShown(now);
  const view = { ...now, layer, head, kvHead: kvHeadOf(now.log.header.model, layer, head) };
  const { qkv, write, attend, sample } = phases();
  const k = (/** @type {number} */ p) => vectorOf(view, "k", p) ?? null;
  const v = (/** @type {number} */ p) => vectorOf(view, "v", p) ?? null;
  const inputs = {
    words: shown,
    numPrompt: now.seq.num_prompt_tokens,
    weights: null,
    query: -1,
    next: null,
    k,
    v,
    q: null,
  };
  if (query === null) {
    shown.forEach((word, p) => {
      const colour = p < inputs.numPrompt ? colours().prompt : colours().generated;
      if (p < columns.first) return;
      if (p < now.numFilled) paintColumn(c, columns, rows, inputs, p, { ...COMPLETE, lines: 0 });
      else paintWord(c, columns, p, word, rows.text, { colour });
    });
    return paintBlocks(c, columns, rows, now, now.numFilled - 1, 1);
  }
  const row = attentionRow(now.log, now.index, now.seq.seq_id, layer, head, query);
  const weights = row && Float32Array.from({ length: query + 1 }, (_, p) => row.weights[p - row.keyStart] ?? 0);
  const next = words[query + 1] ?? null;
  const q = vectorOf(view, "q", query) ?? null;
  const attention = { ...inputs, words: words.slice(0, query + 1), weights, query, next, q };
  const firstNew = now.entry?.start ?? query; // cells written by this record appear during the write phase
  paintAttention(
    c,
    columns,
    rows,
    attention,
    { cells: 1, query: qkv, lines: attend, values: attend, next: sample },
    (p) => (p < firstNew ? 1 : write),
  );
  paintBlocks(c, columns, rows, now, query, write);
}

const BRACKET_SPACE = 22; // px

/**
 * Paint a bracket with its id for each block that the cells lie in.
 * @param {CanvasRenderingContext2D} c @param {import("./geometry.js").Columns} columns
 * @param {ReturnType<typeof rowsOf>} rows @param {View} now
 * @param {number} last position of the last cell
 * @param {number} written visible share of the newest cell, 0 to 1
 */
function paintBlocks(c, { x, widths, first }, rows, { table, blockSize }, last, written) {
  const y = rows.v + rows.cell + 5;
  c.strokeStyle = c.fillStyle = colours()["ink-2"];
  c.lineWidth = 1.5;
  c.font = fontOf(14);
  c.textAlign = "center";
  c.textBaseline = "top";
  table.forEach((id, logical) => {
    const from = Math.max(first, logical * blockSize);
    const to = Math.min(last, (logical + 1) * blockSize - 1);
    if (id === RELEASED || to < from) return;
    const left = x[from - first] - widths[from - first] / 2 + 4;
    const right = x[to - first] + widths[to - first] / 2 - 4;
    c.globalAlpha = from === last ? written : 1;
    c.beginPath();
    c.moveTo(left, y - 4);
    c.lineTo(left, y);
    c.lineTo(right, y);
    if (to === (logical + 1) * blockSize - 1) c.lineTo(right, y - 4); // left open while the block has free slots
    c.stroke();
    const text = t("intro.first.block", { id });
    c.fillText(c.measureText(text).width < right - left ? text : String(id), (left + right) / 2, y + 3);
  });
  c.globalAlpha = 1;
}

/** @typedef {{layer: number, head: number}} Head */
/** The first shown head of each run. @type {WeakMap<import("../../core/log.js").TraceLog, Head>} */
const firstHeads = new WeakMap();

/**
 * Return the layer and head of the picture: the chosen ones, or the ones first shown. They are fixed per run, because
 * another head has other keys for the same tokens, which would look as if cached keys had changed.
 * @param {View} now
 * @returns {Head}
 */
export function headShown(now) {
  if (settings.layer.peek() !== null && settings.head.peek() !== null) return now;
  const previous = firstHeads.get(now.log);
  if (previous) return previous;
  const { layer, head } = widestHead(now.log) ?? now;
  if (isWhole(now.log, now.index)) firstHeads.set(now.log, { layer, head });
  return { layer, head };
}

/** Show the same head in the run that replaces this one. @param {View} now */
export function keepHead(now) {
  const { layer, head } = headShown(now);
  batch(() => ([settings.layer.value, settings.head.value] = [layer, head]));
}

/**
 * Return the arrays to fetch for the picture: all layers (null) of a record to choose a head, then the arrays of
 * the head's layer.
 * @param {View} now
 * @returns {{record: number, layer: number | null}[]}
 */
export function missingArrays(now) {
  const isChosen = firstHeads.has(now.log) || (settings.layer.peek() !== null && settings.head.peek() !== null);
  if (!isChosen && !widestHead(now.log) && !isWhole(now.log, now.index)) return [{ record: now.index, layer: null }];
  const { layer } = headShown(now);
  const records = new Set([now.index]);
  for (let p = 0; p < now.numFilled; p++) {
    const origin = originOf(now, p);
    if (origin) records.add(origin.record);
  }
  return [...records].filter((record) => now.log.captureMissing(record, layer)).map((record) => ({ record, layer }));
}
