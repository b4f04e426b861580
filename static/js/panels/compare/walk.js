// Arrow keys go along a lane of token buttons and between the two lanes; Home and End to a lane's ends.

/** @param {KeyboardEvent & {currentTarget: HTMLElement}} event */
export function walk(event) {
  const box = event.currentTarget;
  const of = (/** @type {string} */ side) => buttons(box, side);
  const focused = document.activeElement?.closest(".compare-token");
  const at = focused instanceof HTMLElement ? focused : null;
  const lane = of(at?.dataset.side ?? "a");
  const place = at ? lane.indexOf(at) : -1;
  const other = (/** @type {string} */ side) => {
    const column = at?.closest(".runs-place");
    return column ? buttons(column, side)[0] : undefined;
  };
  /** @type {Record<string, () => HTMLElement | undefined>} */
  const ways = {
    ArrowRight: () => lane[place + 1],
    ArrowLeft: () => lane[place - 1],
    Home: () => lane[0],
    End: () => lane.at(-1),
    ArrowDown: () => other("b"),
    ArrowUp: () => other("a"),
  };
  const next = ways[event.key];
  if (!next) return;
  event.preventDefault();
  (next() ?? (place < 0 ? (lane[0] ?? of("b")[0]) : null))?.focus();
}

/**
 * @param {Element} box
 * @param {string} side
 * @returns {HTMLElement[]}
 */
const buttons = (box, side) => [...box.querySelectorAll(/** @type {"button"} */ (`button[data-side="${side}"]`))];
