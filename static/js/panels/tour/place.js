// Placement of the tour's card: beside its target, without covering it if possible.

const GAP = 14; // px between the card and its target
const MARGIN = 8; // px between the card and the window's edge

/**
 * `ceiling` and `floor` are the bounds of the free area between tabs and transport.
 *
 * @typedef {import("../../control/tour.js").Stop["side"]} Side
 * @typedef {{width: number, height: number}} Size
 * @typedef {{left: number, top: number, right: number, bottom: number}} Box
 * @typedef {{width: number, ceiling: number, floor: number}} FreeSpace
 * @typedef {{left: number, top: number, side: Side, arrow: {left: number | null, top: number | null}}} Place
 */

/** @type {Side[]} */
const SIDES = ["right", "left", "below", "above"];

/**
 * Place the card on `side` of the target, or else on the first side where it fits. If it fits nowhere, it is on `side`,
 * moved into the window.
 * @param {Box} box of the target
 * @param {Size} size of the card
 * @param {FreeSpace} room @param {Side} side
 * @returns {Place}
 */
export function placeBeside(box, size, room, side) {
  const middle = { x: (box.left + box.right) / 2, y: box.top + Math.min((box.bottom - box.top) / 2, 80) };
  /** @type {(value: number, least: number, most: number) => number} */
  const limit = (value, min, max) => Math.max(min, Math.min(value, max));
  const limitLeft = (/** @type {number} */ left) => limit(left, MARGIN, room.width - size.width - MARGIN);
  const limitTop = (/** @type {number} */ top) => limit(top, MARGIN, room.floor - size.height - MARGIN);
  const at = {
    right: { left: box.right + GAP, top: limitTop(middle.y - 40) },
    left: { left: box.left - GAP - size.width, top: limitTop(middle.y - 40) },
    below: { left: limitLeft(middle.x - size.width / 2), top: box.bottom + GAP },
    above: { left: limitLeft(middle.x - size.width / 2), top: box.top - GAP - size.height },
  };
  /** @type {(side: Side) => boolean} */
  const fits = (name) => {
    const { left, top } = at[name];
    return left === limitLeft(left) && top === limitTop(top);
  };
  const chosen = fits(side) ? side : (SIDES.find(fits) ?? side);
  const [left, top] = [limitLeft(at[chosen].left), limitTop(at[chosen].top)];
  const isVertical = chosen === "above" || chosen === "below";
  return {
    left,
    top,
    side: chosen,
    arrow: {
      left: isVertical ? limit(middle.x - left, MARGIN, size.width - 20) - 6 : null,
      top: isVertical ? null : limit(middle.y - top, MARGIN, size.height - 20) - 6,
    },
  };
}

/**
 * Place the card above the transport on phones. `scroll` is the number of px to scroll so that the target ends above
 * the card, or begins below the tabs if it is too tall.
 * @param {Box} box @param {Size} size @param {FreeSpace} room
 * @returns {Place & {scroll: number}}
 */
export function placeAbove(box, size, room) {
  const top = room.floor - size.height - MARGIN;
  const [first, last] = [room.ceiling + GAP, top - GAP];
  const scroll =
    box.top < first || box.bottom - box.top > last - first ? box.top - first : Math.max(0, box.bottom - last);
  const middle = (box.left + box.right) / 2 - MARGIN;
  return { left: MARGIN, top, side: "below", arrow: { left: middle - 6, top: null }, scroll };
}
