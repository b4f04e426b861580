// A link that names a section leads to it, though the sections before it still get their answers and grow.

const HANDS = ["wheel", "touchstart", "pointerdown", "keydown"];

/**
 * Show the element that the address names, and go on showing it until the reader does something.
 *
 * @param {Element} page what grows
 */
export function arrive(page) {
  const target = document.getElementById(location.hash.slice(1));
  if (!target) return;
  const sizes = new ResizeObserver(() => target.scrollIntoView());
  sizes.observe(page); // which is told of its size at once
  const done = new AbortController();
  for (const name of HANDS)
    addEventListener(
      name,
      () => {
        sizes.disconnect();
        done.abort();
      },
      { signal: done.signal, passive: true },
    );
}
