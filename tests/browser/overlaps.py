"""Search for overlapping texts of the page by the positions of their lines."""

from playwright.sync_api import Page

OVERLAPS = """(selector) => {
  const root = document.querySelector(selector);
  const seen = (element) => {
    // the part of the element that its ancestors do not clip
    let box = { left: 0, top: 0, right: innerWidth, bottom: innerHeight };
    for (let e = element; e && e !== document.documentElement; e = e.parentElement) {
      const style = getComputedStyle(e);
      if (style.clipPath !== 'none') return { left: 0, top: 0, right: 0, bottom: 0 }; // for screen readers only
      if (style.overflowX !== 'visible' || style.overflowY !== 'visible') {
        const b = e.getBoundingClientRect();
        box = { left: Math.max(box.left, b.left), top: Math.max(box.top, b.top),
                right: Math.min(box.right, b.right), bottom: Math.min(box.bottom, b.bottom) };
      }
    }
    return box;
  };
  const lines = [];
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const owner = node.parentElement;
    if (!node.data.trim() || owner.closest('option, script, style, .visually-hidden, .tooltip')) continue;
    if (!owner.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
    const clip = seen(owner);
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const r of range.getClientRects()) {
      const slack = Math.max(0, (r.height - parseFloat(getComputedStyle(owner).fontSize)) / 2);
      const box = { left: Math.max(r.left, clip.left), top: Math.max(r.top + slack, clip.top),
                    right: Math.min(r.right, clip.right), bottom: Math.min(r.bottom - slack, clip.bottom) };
      if (box.right - box.left > 2 && box.bottom - box.top > 4) lines.push({ node, box, text: node.data.trim() });
    }
  }
  const found = [];
  lines.forEach((a, i) => lines.slice(i + 1).forEach((b) => {
    if (a.node === b.node) return;
    const wide = Math.min(a.box.right, b.box.right) - Math.max(a.box.left, b.box.left);
    const high = Math.min(a.box.bottom, b.box.bottom) - Math.max(a.box.top, b.box.top);
    if (wide > 2 && high > 3) found.push(`${a.text.slice(0, 40)} / ${b.text.slice(0, 40)}`);
  }));
  return found;
}"""


def overlapping(page: Page, selector: str) -> list[str]:
    """Return the beginnings of each pair of overlapping visible texts within an element."""
    found: list[str] = page.evaluate(OVERLAPS, selector)
    return found
