// A panel of several runs takes the room that lanes need while it is open.

import { useEffect } from "../../vendor/preact/hooks.js";
import { html } from "../kit/html.js";
import { settings } from "../state/settings.js";

const LOW = 900; // px of the window

/**
 * The panel is large while `wanted`, and afterwards as it was before.
 * @param {boolean} wanted
 */
export function useRoom(wanted) {
  useEffect(() => {
    if (!wanted) return undefined;
    const before = settings.detail_large.peek();
    settings.detail_large.value = true;
    return () => (settings.detail_large.value = before);
  }, [wanted]);
}

/** As `useRoom`, where the window is so low that little of the panel would be seen below the stage. */
export const useRoomWhereLow = () => useRoom(globalThis.innerHeight < LOW);

/**
 * While a panel of lanes is open it takes the room, and its lanes are what the page shows and drives; while `on`.
 * @param {import("./player.js").LanesPlayer} player
 * @param {boolean} on
 */
export function useLanes(player, on) {
  useRoom(true);
  useEffect(() => (on ? player.enter() : undefined), [on]);
}

/**
 * Why there are no runs to be seen here.
 * @param {{of: string, text: string}} props `of`: the panel
 */
export const Nothing = ({ of, text }) => html`<p class="hint" id=${`${of}-nothing`}>${text}</p>`;
