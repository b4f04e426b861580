// Parts of panels with several runs: the enlarged layout while they are open, and columns of aligned tokens.

import { useEffect, useRef } from "../../vendor/preact/hooks.js";
import { t } from "../i18n/words.js";
import { html } from "../kit/html.js";
import { settings } from "../state/settings.js";
import { differsAt, labelsOf, placesShown } from "./tokens.js";

/** @import {Aligned, Token} from "./tokens.js" */

const LOW_WINDOW = 900; // px

/** Enlarge the panel while `isEnlarged`, and restore its size afterwards. @param {boolean} isEnlarged */
export function useEnlarged(isEnlarged) {
  useEffect(() => {
    if (!isEnlarged) return undefined;
    const before = settings.detail_large.peek();
    settings.detail_large.value = true;
    return () => (settings.detail_large.value = before);
  }, [isEnlarged]);
}

/** Enlarge the panel if the window is so low that little of it would fit below the stage. */
export const useEnlargedWhereLow = () => useEnlarged(globalThis.innerHeight < LOW_WINDOW);

/**
 * Enlarge the panel, and while `on` make its lanes the shown and controlled runs of the page.
 * @param {import("./player.js").LanesPlayer} player
 * @param {boolean} on
 */
export function useLanes(player, on) {
  useEnlarged(true);
  useEffect(() => (on ? player.enter() : undefined), [on]);
}

/** Reason that there are no runs to show. @param {{of: string, text: string}} props `of`: the panel */
export const Nothing = ({ of, text }) => html`<p class="hint" id=${`${of}-nothing`}>${text}</p>`;

/** Number of positions in the document around the first difference, which texts always name. */
const SPAN = { before: 160, after: 160 };
const NOTHING = "\u00a0"; // reserves the height of a line

/**
 * Columns by position in a scrolling box, scrolled to the first difference, or else to the newest.
 * @param {{aligned: Aligned, label: string, newest?: number}} props `newest`: the step whose tokens are outlined
 */
export function TokenColumns({ aligned, label, newest = -1 }) {
  const { lanes, difference } = aligned;
  const ref = useRef(/** @type {HTMLElement | null} */ (null));
  const count = Math.max(0, ...lanes.map((lane) => lane.length));
  useEffect(() => {
    const box = ref.current;
    const mark = /** @type {HTMLElement | null | undefined} */ (box?.querySelector(".first"));
    if (box) box.scrollLeft = mark ? Math.max(0, mark.offsetLeft - box.clientWidth / 2) : box.scrollWidth;
  }, [count, difference?.place]);
  const labels = lanes.map(labelsOf);
  const [from, to] = placesShown(aligned, SPAN);
  return html`<div class="runs-columns" ref=${ref} tabindex="0" data-arrows role="group" aria-label=${label}>
    ${Array.from({ length: to - from }, (_, k) => {
      const place = from + k;
      const tokens = lanes.map((lane) => lane[place]);
      const first = difference?.place === place;
      const mark = differsAt(aligned, place) ? "≠" : tokens.every(Boolean) ? "=" : NOTHING;
      return html`<span class=${placeClass(aligned, place)} key=${place}>
        ${tokens.map((token, i) => {
          return html`<span class=${tokenClass(token, newest)}>${labels[i][place] || NOTHING}</span>`;
        })}
        <span class="runs-mark">${mark}</span>
        ${first ? html`<span class="runs-mark-step num">${t("runs.at_step", { step: difference.step })}</span>` : null}
      </span>`;
    })}
  </div>`;
}

/** @param {Token | undefined} token @param {number} newest */
const tokenClass = (token, newest) => (token?.step === newest ? "generated newest" : "generated");

/**
 * Return the class of a position: whether the lanes differ there, and whether it is the first difference.
 * @param {Aligned} aligned
 * @param {number} place
 */
export function placeClass(aligned, place) {
  const first = aligned.difference?.place === place ? " first" : "";
  return `runs-place${differsAt(aligned, place) ? " differs" : ""}${first}`;
}

/** Names of the runs, beside the columns. @param {{names: string[]}} props */
export const LaneNames = ({ names }) =>
  html`<div class="runs-names" aria-hidden="true">${names.map((name) => html`<span>${name}</span>`)}</div>`;
