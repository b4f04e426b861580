// Left and right arrow keys walk along buttons that stand side by side.

/** @type {Record<string, "previousElementSibling" | "nextElementSibling">} */
const NEXT = { ArrowLeft: "previousElementSibling", ArrowRight: "nextElementSibling" };

/**
 * Move the focus from the button that has it to its neighbour.
 *
 * @param {KeyboardEvent} event
 */
export function walkRow(event) {
  const next = NEXT[event.key];
  if (!next) return;
  event.preventDefault();
  /** @type {HTMLElement | null} */ (/** @type {Element} */ (event.currentTarget)[next])?.focus();
}
