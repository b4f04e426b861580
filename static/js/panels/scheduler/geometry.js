// Geometry of the tracks: columns of records and rows of sequences in the scrolled plane. Pure.

export const GUTTER = 62; // px of the fixed left column with names of sequences and budgets
export const INSTANCE_WIDTH = 58; // additional px for instance names
export const AXIS_HEIGHT = 14; // px of the step numbers, fixed at the bottom
const MIN_CELL = 6;
const MAX_CELL = 22;
const MIN_ROW = 13;
const MAX_ROW = 24;

/** @typedef {ReturnType<typeof tracksLayout>} Layout */

const MIN_BUDGET_HEIGHT = 96; // px; a lower panel has no budgets

/**
 * Return the heights of the budgets and their gaps, and the top of the first row. Low panels have no budgets.
 * @param {number} height
 */
function budgets(height) {
  if (height < MIN_BUDGET_HEIGHT) return { budget: { tokens: 0, seqs: 0, gap: 0 }, top: 0 };
  const isLow = height < 170;
  const budget = { tokens: isLow ? 26 : 56, seqs: isLow ? 12 : 22, gap: isLow ? 4 : 8 };
  return { budget, top: budget.tokens + budget.gap + budget.seqs + budget.gap };
}

/** Return the width of a record's cell. @param {number} records @param {number} width @param {number} [gutter] */
const cellOf = (records, width, gutter = GUTTER) =>
  clamp(Math.floor(Math.max(0, width - gutter - 2) / Math.max(records, 24)), MIN_CELL, MAX_CELL);

/**
 * Return the records visible in a window of `width` px at scroll offset `left`: [first, last].
 * @param {number} records @param {number} width @param {number} left
 * @param {number} [gutter]
 * @returns {[first: number, last: number]}
 */
export function visibleRecords(records, width, left, gutter = GUTTER) {
  const cell = cellOf(records, width, gutter);
  return [Math.floor(left / cell), Math.min(records - 1, Math.ceil((left + width - gutter) / cell))];
}

/** Whether all rows fit without scrolling. @param {number} tracks @param {number} height */
export const rowsFit = (tracks, height) => tracks * MIN_ROW <= height - budgets(height).top - AXIS_HEIGHT;

/**
 * Lay out `records` columns and `tracks` rows in width × height px. The budgets do not scroll; with `pinned`, neither
 * does the first row below them.
 * @param {{records: number, tracks: number, width: number, height: number, pinned?: boolean, gutter?: number}} counts
 */
export function tracksLayout({ records, tracks, width, height, pinned = false, gutter = GUTTER }) {
  const { budget, top } = budgets(height);
  const cell = cellOf(records, width, gutter);
  const row = clamp(Math.floor((height - top - AXIS_HEIGHT) / Math.max(tracks, 1)), MIN_ROW, MAX_ROW);
  return {
    cell,
    row,
    gutter, // width of the fixed left column
    top, // height of the fixed budgets
    budget,
    pinned: pinned ? row : 0, // height of the pinned row
    width: Math.max(width, gutter + records * cell + 2),
    height: Math.max(height, top + tracks * row + AXIS_HEIGHT),
    /** @param {number} record */
    x: (record) => gutter + record * cell,
    /** @param {number} track */
    y: (track) => top + track * row,
    /** Return record and track at a point of the plane, each null if outside. @param {number} x @param {number} y */
    at(x, y) {
      const record = Math.floor((x - gutter) / cell);
      const track = Math.floor((y - top) / row);
      return {
        record: record >= 0 && record < records ? record : null,
        track: track >= 0 && track < tracks ? track : null,
      };
    },
  };
}

/**
 * Return the maximum of a bar's axis: the limit if it is at most 1.6 times the largest value, otherwise a round value.
 * @param {number} largest @param {number} limit @param {(value: number) => number} niceCeiling
 */
export function budgetScale(largest, limit, niceCeiling) {
  return limit && limit <= 1.6 * largest ? limit : niceCeiling(Math.max(largest, 1));
}

/**
 * Return the number of steps between axis labels at least `px` px apart: 1, 2 or 5 times a power of ten.
 * @param {number} cell @param {number} px
 */
export function labelEvery(cell, px) {
  for (let power = 1; ; power *= 10) for (const step of [1, 2, 5]) if (step * power * cell >= px) return step * power;
}

/** @type {(value: number, low: number, high: number) => number} */
const clamp = (value, low, high) => Math.max(low, Math.min(high, value));
