// The tour's card: beside what it explains, never over it where there is room, with an arrow; the page stays usable.

import { useEffect, useLayoutEffect, useRef } from "../../../vendor/preact/hooks.js";
import { back, endTour, isDone, next, STOPS, stop } from "../../control/tour.js";
import { html } from "../../kit/html.js";
import { Icon } from "../../kit/icon.js";
import { settings } from "../../state/settings.js";
import { numRecords, viewIndex } from "../../state/store.js";
import { t } from "../../tell/words.js";

const GAP = 14; // px between the card and what it explains
const EDGE = 8;
/**
 * @typedef {import("../../control/tour.js").Stop["side"]} Side
 * @typedef {{left: number, top: number}} Corner
 */

/** @type {Side[]} */
const SIDES = ["right", "left", "below", "above"];

export function Panel() {
  return stop.value === null ? null : html`<${Card} index=${stop.value} />`;
}

/** @param {{index: number}} props */
function Card({ index }) {
  const card = useRef(/** @type {HTMLElement | null} */ (null));
  const ring = useRef(/** @type {HTMLElement | null} */ (null));
  const { id, target, side } = STOPS[index];
  const done = isDone.value;
  const last = index === STOPS.length - 1;
  settings.region.value, numRecords.value, viewIndex.value; // what may move the target
  const move = () => place(document.querySelector(target), card.current, ring.current, side);
  useLayoutEffect(move);
  useEffect(() => {
    document.querySelector(target)?.scrollIntoView({ block: "nearest" });
    const sizes = new ResizeObserver(move);
    for (const element of [document.body, card.current, document.querySelector(target)])
      if (element) sizes.observe(element);
    document.addEventListener("scroll", move, true);
    return () => {
      sizes.disconnect();
      document.removeEventListener("scroll", move, true);
    };
  }, [index]);
  useEffect(() => {
    /** @param {KeyboardEvent} event */
    const onEscape = (event) => {
      if (event.key !== "Escape" || document.querySelector(".side, dialog[open]")) return;
      event.stopPropagation(); // one thing at a time: the selection stays
      goOn(endTour);
    };
    document.addEventListener("keydown", onEscape, true);
    return () => document.removeEventListener("keydown", onEscape, true);
  }, []);
  return html`<div class="tour-ring" ref=${ring} aria-hidden="true"></div>
    <section class="tour" id="tour" role="dialog" aria-modal="false" aria-labelledby="tour-title" data-stop=${id}
      data-done=${done} ref=${card}>
      <i class="tour-arrow" aria-hidden="true"></i>
      <div class="tour-head">
        <h2 class="side-title" id="tour-title">${t(`tour.${id}`)}</h2>
        <span class="num"
          aria-label=${t("tour.progress", { i: index + 1, n: STOPS.length })}>${index + 1} / ${STOPS.length}</span>
      </div>
      <div aria-live="polite">
        <p>${t(`tour.${id}.text`)}</p>
        <p class="tour-task"><${Icon} name=${done ? "done" : "todo"}
          /> <span>${t(done ? `tour.${id}.done` : `tour.${id}.task`)}</span></p>
      </div>
      <div class="tour-buttons">
        ${
          last
            ? null
            : html`<button class="link" id="tour-skip"
          onClick=${() => goOn(endTour)}>${t("tour.skip")}</button>`
        }
        <button class="quiet" id="tour-back" disabled=${index === 0} onClick=${back}>${t("tour.back")}</button>
        <button class=${done ? "command primary" : "command"} id="tour-next"
          onClick=${() => goOn(next)}>${t(last ? "tour.end" : "tour.next")}</button>
      </div>
    </section>`;
}

/**
 * When the tour ends while its card has the focus, the focus moves to the first thing to do.
 *
 * @param {() => void} act
 */
function goOn(act) {
  const within = document.querySelector("#tour :focus-visible") !== null;
  act();
  if (within && stop.peek() === null)
    /** @type {HTMLElement | null} */ (document.querySelector(".transport .primary:not(:disabled)"))?.focus({
      preventScroll: true,
    });
}

/**
 * Put the card on `side` of the target, or where there is room; on a phone above the transport.
 *
 * @param {Element | null} target
 * @param {HTMLElement | null} card
 * @param {HTMLElement | null} ring
 * @param {Side} side
 */
function place(target, card, ring, side) {
  if (!card || !ring) return;
  const box = target?.getClientRects().length ? target.getBoundingClientRect() : null;
  ring.hidden = !box;
  if (!box) return;
  Object.assign(ring.style, {
    left: `${box.left - 4}px`,
    top: `${box.top - 4}px`,
    width: `${box.width + 8}px`,
    height: `${box.height + 8}px`,
  });
  const size = { width: card.offsetWidth, height: card.offsetHeight };
  const middle = { x: box.left + box.width / 2, y: box.top + Math.min(box.height / 2, 80) };
  const phone = innerWidth < 720;
  // the buttons of the transport stay free
  const roof = document.querySelector(".transport")?.getBoundingClientRect().top ?? innerHeight;
  const floor = side === "above" && !phone ? innerHeight : roof;
  /** @type {Record<Side, Corner>} */
  const at = {
    right: { left: box.right + GAP, top: middle.y - 40 },
    left: { left: box.left - GAP - size.width, top: middle.y - 40 },
    below: { left: middle.x - size.width / 2, top: box.bottom + GAP },
    above: { left: middle.x - size.width / 2, top: box.top - GAP - size.height },
  };
  const chosen = phone
    ? side === "above"
      ? "above"
      : "below"
    : fits(at[side], size, floor)
      ? side
      : (SIDES.find((name) => fits(at[name], size, floor)) ?? side);
  /** @type {(value: number, most: number) => number} */
  const limit = (value, most) => Math.max(EDGE, Math.min(value, most));
  const left = limit(at[chosen].left, innerWidth - size.width - EDGE);
  const top = limit(at[chosen].top, floor - size.height - EDGE);
  card.style.left = `${left}px`;
  card.style.top = `${top}px`;
  card.dataset.side = chosen;
  const across = chosen === "above" || chosen === "below";
  const arrow = /** @type {HTMLElement | null} */ (card.querySelector(".tour-arrow"));
  if (!arrow) return;
  arrow.style.left = across ? `${limit(middle.x - left, size.width - 20) - 6}px` : "";
  arrow.style.top = across ? "" : `${limit(middle.y - top, size.height - 20) - 6}px`;
}

/** @type {(at: Corner, size: {width: number, height: number}, floor: number) => boolean} */
const fits = ({ left, top }, { width, height }, floor) =>
  left >= EDGE && top >= EDGE && left + width <= innerWidth - EDGE && top + height <= floor - EDGE;
