// Placement of the tour's card: beside its target, without covering it if possible.

const GAP = 14; // px between the card and its target
const EDGE = 8; // px between the card and the window's edge

/**
 * `roof` and `floor`: bounds of the free area between tabs and transport.
 *
 * @typedef {import("../../control/tour.js").Stop["side"]} Side
 * @typedef {{width: number, height: number}} Size
 * @typedef {{left: number, top: number, right: number, bottom: number}} Box
 * @typedef {{width: number, roof: number, floor: number}} FreeSpace
 * @typedef {{left: number, top: number, side: Side, arrow: {left: number | null, top: number | null}}} Place
 */

/** @type {Side[]} */
const SIDES = ["right", "left", "below", "above"];

/**
 * Place the card on `side` of the target, or on the first side with room; if none has room, as near to `side` as the
 * window allows.
 * @param {Box} box of the target
 * @param {Size} size of the card
 * @param {FreeSpace} room
 * @param {Side} side
 * @returns {Place}
 */
export function beside(box, size, room, side) {
  const middle = { x: (box.left + box.right) / 2, y: box.top + Math.min((box.bottom - box.top) / 2, 80) };
  /** @type {(value: number, least: number, most: number) => number} */
  const limit = (value, least, most) => Math.max(least, Math.min(value, most));
  const across = (/** @type {number} */ left) => limit(left, EDGE, room.width - size.width - EDGE);
  const down = (/** @type {number} */ top) => limit(top, EDGE, room.floor - size.height - EDGE);
  const at = {
    right: { left: box.right + GAP, top: down(middle.y - 40) },
    left: { left: box.left - GAP - size.width, top: down(middle.y - 40) },
    below: { left: across(middle.x - size.width / 2), top: box.bottom + GAP },
    above: { left: across(middle.x - size.width / 2), top: box.top - GAP - size.height },
  };
  /** @type {(side: Side) => boolean} */
  const fits = (name) => {
    const { left, top } = at[name];
    return left === across(left) && top === down(top);
  };
  const chosen = fits(side) ? side : (SIDES.find(fits) ?? side);
  const [left, top] = [across(at[chosen].left), down(at[chosen].top)];
  const level = chosen === "above" || chosen === "below";
  return {
    left,
    top,
    side: chosen,
    arrow: {
      left: level ? limit(middle.x - left, EDGE, size.width - 20) - 6 : null,
      top: level ? null : limit(middle.y - top, EDGE, size.height - 20) - 6,
    },
  };
}

/**
 * Place the card above the transport on phones. `scroll`: px to scroll so that the target ends above the card, or
 * begins below the tabs if it is too tall.
 * @param {Box} box
 * @param {Size} size
 * @param {FreeSpace} room
 * @returns {Place & {scroll: number}}
 */
export function docked(box, size, room) {
  const top = room.floor - size.height - EDGE;
  const [first, last] = [room.roof + GAP, top - GAP];
  const scroll =
    box.top < first || box.bottom - box.top > last - first ? box.top - first : Math.max(0, box.bottom - last);
  const middle = (box.left + box.right) / 2 - EDGE;
  return { left: EDGE, top, side: "below", arrow: { left: middle - 6, top: null }, scroll };
}
