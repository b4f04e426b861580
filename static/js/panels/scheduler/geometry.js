// Geometry of the lanes: where each record's column and each sequence's row lies, in the scrolled plane. Pure.

export const GUTTER = 62; // names of the sequences and of the budgets; stays at the left
export const NAMES = 58; // more, for the names of several instances
export const AXIS = 14; // step numbers; stays at the bottom
const MIN_CELL = 6;
const MAX_CELL = 22;
const MIN_ROW = 13;
const MAX_ROW = 24;

/** @typedef {ReturnType<typeof lanesLayout>} Layout */

const LEAST_FOR_BUDGETS = 96; // px: below that the sequences' rows have the room

/**
 * What follows from the room alone: heights of the budgets and their gaps, the first row's top. In a low room there are
 * no budgets.
 *
 * @param {number} height
 */
function budgets(height) {
  if (height < LEAST_FOR_BUDGETS) return { budget: { tokens: 0, seqs: 0, gap: 0 }, top: 0 };
  const tight = height < 170;
  const budget = { tokens: tight ? 26 : 56, seqs: tight ? 12 : 22, gap: tight ? 4 : 8 };
  return { budget, top: budget.tokens + budget.gap + budget.seqs + budget.gap };
}

/**
 * Width of a record's cell.
 *
 * @param {number} records
 * @param {number} width
 * @param {number} [gutter]
 */
const cellOf = (records, width, gutter = GUTTER) =>
  clamp(Math.floor(Math.max(0, width - gutter - 2) / Math.max(records, 24)), MIN_CELL, MAX_CELL);

/**
 * The records that a window of `width` pixels shows when the plane is scrolled by `left`: [first, last].
 *
 * @param {number} records
 * @param {number} width
 * @param {number} left
 * @param {number} [gutter]
 * @returns {[first: number, last: number]}
 */
export function recordsInSight(records, width, left, gutter = GUTTER) {
  const cell = cellOf(records, width, gutter);
  return [Math.floor(left / cell), Math.min(records - 1, Math.ceil((left + width - gutter) / cell))];
}

/**
 * Whether as many rows fit without scrolling.
 *
 * @param {number} lanes
 * @param {number} height
 */
export const rowsFit = (lanes, height) => lanes * MIN_ROW <= height - budgets(height).top - AXIS;

/**
 * Where things lie when `records` columns and `lanes` rows are shown in width × height pixels. `pinned`: the first row
 * stays below the budgets, as they stay at the top.
 *
 * @param {{records: number, lanes: number, width: number, height: number, pinned?: boolean, gutter?: number}} counts
 */
export function lanesLayout({ records, lanes, width, height, pinned = false, gutter = GUTTER }) {
  const { budget, top } = budgets(height);
  const cell = cellOf(records, width, gutter);
  const row = clamp(Math.floor((height - top - AXIS) / Math.max(lanes, 1)), MIN_ROW, MAX_ROW);
  return {
    cell,
    row,
    gutter, // what stays at the left
    top, // height of the budgets, which stay at the top
    budget,
    pinned: pinned ? row : 0, // height of what stays below the budgets
    width: Math.max(width, gutter + records * cell + 2),
    height: Math.max(height, top + lanes * row + AXIS),
    /** @param {number} record */
    x: (record) => gutter + record * cell,
    /** @param {number} lane */
    y: (lane) => top + lane * row,
    /**
     * Record and lane at a point of the plane; each null outside.
     *
     * @param {number} x
     * @param {number} y
     */
    at(x, y) {
      const record = Math.floor((x - gutter) / cell);
      const lane = Math.floor((y - top) / row);
      return { record: record >= 0 && record < records ? record : null, lane: lane >= 0 && lane < lanes ? lane : null };
    },
  };
}

/**
 * How far a bar's axis reaches: the limit when it is near, else just above the largest value.
 *
 * @param {number} most
 * @param {number} limit
 * @param {(value: number) => number} niceCeiling
 */
export function budgetScale(most, limit, niceCeiling) {
  return limit && limit <= 1.6 * most ? limit : niceCeiling(Math.max(most, 1));
}

/**
 * Steps between labels of an axis, so that they lie `room` pixels apart: 1, 2 or 5 times a power of ten.
 *
 * @param {number} cell
 * @param {number} room
 */
export function labelEvery(cell, room) {
  for (let power = 1; ; power *= 10) for (const step of [1, 2, 5]) if (step * power * cell >= room) return step * power;
}

/** @type {(value: number, low: number, high: number) => number} */
const clamp = (value, low, high) => Math.max(low, Math.min(high, value));
