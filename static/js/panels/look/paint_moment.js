// The picture of a record in the first look: the query that it computed, and whom it asked.

import { batch } from "../../../vendor/signals/signals.js";
import { wordOf } from "../../core/film.js";
import { attentionRow, originOf, vectorOf } from "../../core/sequence_view.js";
import { isWhole, widestHead } from "../../core/wide_rows.js";
import { colours } from "../../kit/colour.js";
import { settings } from "../../state/settings.js";
import { columnsOf } from "./geometry.js";
import { ASKED, paintAsk, paintWord, rowsOf } from "./paint_ask.js";

/**
 * The words up to the query and the one that came of it; those that do not fit are left out at the beginning.
 *
 * @param {CanvasRenderingContext2D} c
 * @param {import("./geometry.js").Size} size
 * @param {import("../../state/store.js").View} now
 */
export function paintMoment(c, size, now) {
  const words = now.seq.token_bytes.map(wordOf);
  const { query } = now;
  const shown = query === null ? words : words.slice(0, query + 2);
  const columns = columnsOf(c, shown, size.width, 34);
  if (query === null) {
    const { text } = rowsOf(size, columns);
    shown.forEach((word, p) => {
      const colour = p < now.seq.num_prompt_tokens ? colours().prompt : colours().generated;
      if (p >= columns.first) paintWord(c, columns, p, word, text, { colour });
    });
    return;
  }
  const { layer, head } = headShown(now);
  const { num_heads, num_kv_heads } = now.log.header.model;
  const view = { ...now, layer, head, kvHead: Math.floor(head / (num_heads / num_kv_heads)) };
  const row = attentionRow(now.log, now.index, now.seq.seq_id, layer, head, query);
  const weights = row && Float32Array.from({ length: query + 1 }, (_, p) => row.weights[p - row.keyStart] ?? 0);
  paintAsk(
    c,
    size,
    columns,
    {
      words: words.slice(0, query + 1),
      numPrompt: now.seq.num_prompt_tokens,
      weights,
      query,
      next: words[query + 1] ?? null,
      k: (p) => vectorOf(view, "k", p) ?? null,
      v: (p) => vectorOf(view, "v", p) ?? null,
      q: vectorOf(view, "q", query) ?? null,
    },
    ASKED,
  );
}

/** @typedef {{layer: number, head: number}} Place */
/** By run, the head that its picture began with. @type {WeakMap<import("../../core/log.js").TraceLog, Place>} */
const begun = new WeakMap();

/**
 * The layer and head that the picture shows: those that were chosen, else the ones that it began with. They stay as the
 * run grows: in another head earlier tokens have other keys, as if the past had changed.
 *
 * @param {import("../../state/store.js").View} now
 * @returns {Place}
 */
export function headShown(now) {
  if (settings.layer.peek() !== null && settings.head.peek() !== null) return now;
  const known = begun.get(now.log);
  if (known) return known;
  const { layer, head } = widestHead(now.log) ?? now;
  if (isWhole(now.log, now.index)) begun.set(now.log, { layer, head });
  return { layer, head };
}

/** Show the same head in the run that comes in place of this one. @param {import("../../state/store.js").View} now */
export function keepHead(now) {
  const { layer, head } = headShown(now);
  batch(() => ([settings.layer.value, settings.head.value] = [layer, head]));
}

/**
 * What the picture would show and could be fetched: all layers (null) of a record to look for the head that asks most,
 * then the arrays of its layer.
 *
 * @param {import("../../state/store.js").View} now
 * @returns {{record: number, layer: number | null}[]}
 */
export function missingOf(now) {
  const isChosen = begun.has(now.log) || (settings.layer.peek() !== null && settings.head.peek() !== null);
  if (!isChosen && !widestHead(now.log) && !isWhole(now.log, now.index)) return [{ record: now.index, layer: null }];
  const { layer } = headShown(now);
  const records = new Set([now.index]);
  for (let p = 0; p < now.numFilled; p++) {
    const origin = originOf(now, p);
    if (origin) records.add(origin.record);
  }
  return [...records].filter((record) => now.log.captureMissing(record, layer)).map((record) => ({ record, layer }));
}
