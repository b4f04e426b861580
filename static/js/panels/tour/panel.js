// The tour's card, placed beside its target with an arrow, without covering it if possible. The page stays usable.

import { useEffect, useLayoutEffect, useRef } from "../../../vendor/preact/hooks.js";
import { back, isDone, leaveTour, next, STOPS, stop, toFirstLesson } from "../../control/tour.js";
import { t } from "../../i18n/words.js";
import { html } from "../../kit/html.js";
import { Icon } from "../../kit/icon.js";
import { isPhone } from "../../kit/measure.js";
import { settings } from "../../state/settings.js";
import { numRecords, viewIndex } from "../../state/store.js";
import { beside, docked } from "./place.js";

export function Panel() {
  return stop.value === null ? null : html`<${Card} index=${stop.value} />`;
}

/** @param {{index: number}} props */
function Card({ index }) {
  const card = useRef(/** @type {HTMLElement | null} */ (null));
  const ring = useRef(/** @type {HTMLElement | null} */ (null));
  const { id, side, points } = STOPS[index];
  const target = (isPhone() && STOPS[index].phone) || STOPS[index].target;
  const task = points && matchMedia("(hover: none)").matches ? "tap" : "task";
  const done = isDone.value;
  const last = index === STOPS.length - 1;
  settings.region.value, numRecords.value, viewIndex.value; // dependencies: changes that may move the target
  const move = () => place(document.querySelector(target), card.current, ring.current, side);
  useLayoutEffect(move);
  useEffect(() => {
    let known = /** @type {Element | null} */ (null);
    const sizes = new ResizeObserver(move);
    for (const element of [document.body, card.current, document.querySelector(".toasts")])
      if (element) sizes.observe(element);
    const find = () => {
      const found = document.querySelector(target);
      if (found === known || !card.current) return;
      known = found;
      if (!found) return move();
      sizes.observe(found);
      bringIntoSight(found, card.current);
      move();
    };
    find();
    const parts = new MutationObserver(find); // a panel's code may still be loading
    const page = document.querySelector("main");
    if (page) parts.observe(page, { childList: true, subtree: true });
    document.addEventListener("scroll", move, true);
    return () => {
      sizes.disconnect();
      parts.disconnect();
      document.removeEventListener("scroll", move, true);
    };
  }, [index]);
  useEffect(() => {
    const found = document.querySelector(target);
    if (done && found && card.current) bringIntoSight(found, card.current); // the card's text has grown
  }, [done]);
  useEffect(() => {
    /** @param {KeyboardEvent} event */
    const onEscape = (event) => {
      if (event.key !== "Escape" || document.querySelector(".side, dialog[open]")) return;
      event.stopPropagation(); // Escape closes only the tour; the selection is kept
      goOn(leaveTour);
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
          /> <span>${t(`tour.${id}.${done ? "done" : task}`)}</span></p>
      </div>
      <div class="tour-buttons">
        ${
          last
            ? null
            : html`<button class="link" id="tour-skip"
          onClick=${() => goOn(leaveTour)}>${t("tour.skip")}</button>`
        }
        <button class="quiet" id="tour-back" disabled=${index === 0} onClick=${back}>${t("tour.back")}</button>
        <button class=${done && !last ? "command primary" : last ? "quiet" : "command"} id="tour-next"
          onClick=${() => goOn(next)}>${t(last ? "tour.end" : "tour.next")}</button>
        ${
          last
            ? html`<button class=${done ? "command primary" : "command"} id="tour-lesson"
          onClick=${toFirstLesson}>${t("tour.lesson")}</button>`
            : null
        }
      </div>
    </section>`;
}

/** Advance the tour; focus the primary command if it ends while its card has the focus. @param {() => void} act */
function goOn(act) {
  const within = document.querySelector("#tour :focus-visible") !== null;
  act();
  if (within && stop.peek() === null)
    /** @type {HTMLElement | null} */ (document.querySelector(".transport .primary:not(:disabled)"))?.focus({
      preventScroll: true,
    });
}

/** Return the free part of the window: below a phone's tabs, above the transport and notices. */
function freeRoom() {
  /** @type {(selector: string) => DOMRect | undefined} */
  const box = (selector) => document.querySelector(selector)?.getBoundingClientRect();
  const tabs = isPhone() ? (box(".tabs")?.height ?? 0) : 0;
  const notices = box(".toasts");
  const floor = Math.min(box(".transport")?.top ?? innerHeight, notices?.height ? notices.top : innerHeight);
  return { width: innerWidth, roof: tabs, floor };
}

/**
 * Scroll the target into view. Not with `scrollIntoView`, which moves Chromium's starting point for Tab, so that the
 * keyboard would no longer reach the card.
 * @param {Element} target
 * @param {HTMLElement} card
 */
function bringIntoSight(target, card) {
  if (!isPhone()) return scrollTo(target);
  scrollBy(0, docked(target.getBoundingClientRect(), sizeOf(card), freeRoom()).scroll);
}

/** Scroll only as far as needed. @param {Element} target */
function scrollTo(target) {
  for (let around = target.parentElement; around; around = around.parentElement) {
    const isPage = around === document.scrollingElement;
    if (!isPage && !/auto|scroll/.test(getComputedStyle(around).overflowY)) continue;
    const { top, bottom } = target.getBoundingClientRect();
    const seen = isPage ? { top: 0, bottom: innerHeight } : around.getBoundingClientRect();
    if (top < seen.top) around.scrollTop += top - seen.top;
    else if (bottom > seen.bottom) around.scrollTop += Math.min(bottom - seen.bottom, top - seen.top);
  }
}

/** @param {HTMLElement} card */
const sizeOf = (card) => ({ width: card.offsetWidth, height: card.offsetHeight });

/**
 * Place the ring around the target and the card beside it, or on phones above the transport.
 * @param {Element | null} target
 * @param {HTMLElement | null} card
 * @param {HTMLElement | null} ring
 * @param {import("../../control/tour.js").Stop["side"]} side
 */
function place(target, card, ring, side) {
  if (!card || !ring) return;
  const box = target?.getClientRects().length ? target.getBoundingClientRect() : null;
  ring.hidden = !box;
  if (!box) return;
  Object.assign(ring.style, {
    translate: `${box.left - 4}px ${box.top - 4}px`,
    width: `${box.width + 8}px`,
    height: `${box.height + 8}px`,
  });
  const found = isPhone() ? docked(box, sizeOf(card), freeRoom()) : beside(box, sizeOf(card), freeRoom(), side);
  card.style.translate = `${found.left}px ${found.top}px`;
  card.dataset.side = found.side;
  const arrow = /** @type {HTMLElement | null} */ (card.querySelector(".tour-arrow"));
  if (!arrow) return;
  arrow.style.left = found.arrow.left === null ? "" : `${found.arrow.left}px`;
  arrow.style.top = found.arrow.top === null ? "" : `${found.arrow.top}px`;
}
