// Layout of panels with several runs, which are enlarged while they are open.

import { useEffect } from "../../vendor/preact/hooks.js";
import { html } from "../kit/html.js";
import { settings } from "../state/settings.js";

const LOW = 900; // px of the window

/** Enlarge the panel while `wanted`, and restore its size afterwards. @param {boolean} wanted */
export function useEnlarged(wanted) {
  useEffect(() => {
    if (!wanted) return undefined;
    const before = settings.detail_large.peek();
    settings.detail_large.value = true;
    return () => (settings.detail_large.value = before);
  }, [wanted]);
}

/** Same as `useRoom`, only for windows so low that little of the panel would fit below the stage. */
export const useEnlargedWhereLow = () => useEnlarged(globalThis.innerHeight < LOW);

/**
 * While `on`: enlarge the panel, and make its lanes the shown and controlled runs of the page.
 * @param {import("./player.js").LanesPlayer} player
 * @param {boolean} on
 */
export function useLanes(player, on) {
  useEnlarged(true);
  useEffect(() => (on ? player.enter() : undefined), [on]);
}

/** Reason that there are no runs to show. @param {{of: string, text: string}} props `of`: the panel */
export const Nothing = ({ of, text }) => html`<p class="hint" id=${`${of}-nothing`}>${text}</p>`;
