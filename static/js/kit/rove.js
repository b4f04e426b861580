// Several things that are one stop of the Tab key: arrows go from one to the next.

/** @type {Record<string, (at: number, last: number) => number>} */
const MOVES = {
  ArrowLeft: (at) => at - 1,
  ArrowUp: (at) => at - 1,
  ArrowRight: (at) => at + 1,
  ArrowDown: (at) => at + 1,
  Home: () => 0,
  End: (_, last) => last,
};

/**
 * Make what a selector finds one stop: where one was last, else the first. Which there are is known when a key is
 * pressed.
 *
 * @param {string} selector
 */
export function rove(selector) {
  /** @type {Element | null} */
  let last = null;
  const all = () =>
    /** @type {HTMLElement[]} */ ([...document.querySelectorAll(selector)]).filter((one) => one.checkVisibility());
  const offer = () => {
    const found = all();
    const stop = found.find((one) => one === last) ?? found[0];
    for (const one of found) one.tabIndex = one === stop ? 0 : -1;
  };
  document.addEventListener(
    "keydown",
    (event) => {
      const target = /** @type {Element} */ (event.target);
      const at = target.closest?.(selector) ?? null;
      if (at) last = at;
      if (event.key === "Tab") return offer();
      if (!at || !(event.key in MOVES) || event.altKey || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      const found = all();
      const to = MOVES[event.key](found.indexOf(/** @type {HTMLElement} */ (at)), found.length - 1);
      found[Math.max(0, Math.min(found.length - 1, to))].focus();
    },
    true,
  );
}
