// The tour's card, with an arrow to its target, which it does not cover if possible. The page remains usable.

import { useEffect, useLayoutEffect, useRef } from "../../../vendor/preact/hooks.js";
import { back, isDone, leaveTour, next, STOPS, stop, toFirstLesson } from "../../control/tour.js";
import { t } from "../../i18n/words.js";
import { html } from "../../kit/html.js";
import { Icon } from "../../kit/icon.js";
import { isPhone } from "../../kit/measure.js";
import { settings } from "../../state/settings.js";
import { numRecords, viewIndex } from "../../state/store.js";
import { placeAbove, placeBeside } from "./place.js";

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
  const update = () => place(document.querySelector(target), card.current, ring.current, side);
  useLayoutEffect(update);
  useEffect(() => {
    let observed = /** @type {Element | null} */ (null);
    const sizes = new ResizeObserver(update);
    for (const element of [document.body, card.current, document.querySelector(".toasts")])
      if (element) sizes.observe(element);
    const find = () => {
      const found = document.querySelector(target);
      if (found === observed || !card.current) return;
      observed = found;
      if (!found) return update();
      sizes.observe(found);
      scrollIntoWindow(found, card.current);
      update();
    };
    find();
    const parts = new MutationObserver(find); // a panel's code may still be loading
    const page = document.querySelector("main");
    if (page) parts.observe(page, { childList: true, subtree: true });
    document.addEventListener("scroll", update, true);
    return () => {
      sizes.disconnect();
      parts.disconnect();
      document.removeEventListener("scroll", update, true);
    };
  }, [index]);
  useEffect(() => {
    const found = document.querySelector(target);
    if (done && found && card.current) scrollIntoWindow(found, card.current); // the card's text has become longer
  }, [done]);
  useEffect(() => {
    /** @param {KeyboardEvent} event */
    const onEscape = (event) => {
      if (event.key !== "Escape" || document.querySelector(".side, dialog[open]")) return;
      event.stopPropagation(); // Escape closes only the tour and does not clear the selection
      advance(leaveTour);
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
          onClick=${() => advance(leaveTour)}>${t("tour.skip")}</button>`
        }
        <button class="quiet" id="tour-back" disabled=${index === 0} onClick=${back}>${t("tour.back")}</button>
        <button class=${done && !last ? "command primary" : last ? "quiet" : "command"} id="tour-next"
          onClick=${() => advance(next)}>${t(last ? "tour.end" : "tour.next")}</button>
        ${
          last
            ? html`<button class=${done ? "command primary" : "command"} id="tour-lesson"
          onClick=${toFirstLesson}>${t("tour.lesson")}</button>`
            : null
        }
      </div>
    </section>`;
}

/** Advance the tour; focus the primary command if it ends while its card has the focus. @param {() => void} action */
function advance(action) {
  const hadFocus = document.querySelector("#tour :focus-visible") !== null;
  action();
  if (hadFocus && stop.peek() === null)
    /** @type {HTMLElement | null} */ (document.querySelector(".transport .primary:not(:disabled)"))?.focus({
      preventScroll: true,
    });
}

/** Return the free part of the window: below a phone's tabs, above the transport and notices. */
function freeSpace() {
  /** @type {(selector: string) => DOMRect | undefined} */
  const box = (selector) => document.querySelector(selector)?.getBoundingClientRect();
  const tabs = isPhone() ? (box(".tabs")?.height ?? 0) : 0;
  const notices = box(".toasts");
  const floor = Math.min(box(".transport")?.top ?? innerHeight, notices?.height ? notices.top : innerHeight);
  return { width: innerWidth, ceiling: tabs, floor };
}

/**
 * Scroll the target into view. `scrollIntoView` is not used: it moves Chromium's starting point for Tab, so that the
 * keyboard would no longer reach the card.
 * @param {Element} target @param {HTMLElement} card
 */
function scrollIntoWindow(target, card) {
  if (!isPhone()) return scrollTo(target);
  scrollBy(0, placeAbove(target.getBoundingClientRect(), sizeOf(card), freeSpace()).scroll);
}

/** Scroll each container of the target only as far as needed. @param {Element} target */
function scrollTo(target) {
  for (let container = target.parentElement; container; container = container.parentElement) {
    const isPage = container === document.scrollingElement;
    if (!isPage && !/auto|scroll/.test(getComputedStyle(container).overflowY)) continue;
    const { top, bottom } = target.getBoundingClientRect();
    const view = isPage ? { top: 0, bottom: innerHeight } : container.getBoundingClientRect();
    if (top < view.top) container.scrollTop += top - view.top;
    else if (bottom > view.bottom) container.scrollTop += Math.min(bottom - view.bottom, top - view.top);
  }
}

/** @param {HTMLElement} card */
const sizeOf = (card) => ({ width: card.offsetWidth, height: card.offsetHeight });

/**
 * Place the ring around the target and the card beside it, or on phones above the transport.
 * @param {Element | null} target @param {HTMLElement | null} card @param {HTMLElement | null} ring
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
  const [size, space] = [sizeOf(card), freeSpace()];
  const found = isPhone() ? placeAbove(box, size, space) : placeBeside(box, size, space, side);
  card.style.translate = `${found.left}px ${found.top}px`;
  card.dataset.side = found.side;
  const arrow = /** @type {HTMLElement | null} */ (card.querySelector(".tour-arrow"));
  if (!arrow) return;
  arrow.style.left = found.arrow.left === null ? "" : `${found.arrow.left}px`;
  arrow.style.top = found.arrow.top === null ? "" : `${found.arrow.top}px`;
}
