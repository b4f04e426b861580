// Entry point of the page /prompts/traffic, which shows and updates the report on a growing file.

const POLL_MS = 1000; // between requests whether the file has grown
const KEYED = "details[data-request]";

/** @param {string} selector @returns {HTMLElement} */
const elementOf = (selector) => /** @type {HTMLElement} */ (document.querySelector(selector));

/** @param {ParentNode} parent @returns {Map<string, HTMLDetailsElement>} */
function turnsIn(parent) {
  const turns = /** @type {NodeListOf<HTMLDetailsElement>} */ (parent.querySelectorAll(KEYED));
  return new Map([...turns].map((turn) => [turn.dataset.request ?? "", turn]));
}

/** Replace the report, and restore open turns, focus and scroll position. @param {string} text */
function show(text) {
  const next = new DOMParser().parseFromString(text, "text/html").querySelector("main");
  if (!next) return;
  const before = elementOf("main");
  const focused = /** @type {HTMLElement | null} */ (document.activeElement?.closest(KEYED) ?? null);
  const turns = turnsIn(next);
  for (const [request, turn] of turnsIn(before)) {
    const now = turns.get(request);
    if (now) now.open = turn.open;
  }
  const { scrollX, scrollY } = window;
  before.replaceWith(document.adoptNode(next));
  window.scrollTo(scrollX, scrollY);
  const summary = focused && turns.get(focused.dataset.request ?? "")?.querySelector("summary");
  summary?.focus({ preventScroll: true });
}

/** @param {string} etag of the shown report; "": none @returns {Promise<string>} ETag of the report shown now */
async function ask(etag) {
  const headers = etag ? { "If-None-Match": etag } : undefined;
  const state = elementOf("#state");
  try {
    const answer = await fetch(`traffic/report${location.search}`, { headers, cache: "no-store" });
    const { live = "", waiting = "" } = state.dataset;
    if (answer.status === 304) {
      state.textContent = live;
      return etag;
    }
    if (answer.status === 204) {
      state.textContent = waiting;
      return "";
    }
    const text = await answer.text();
    if (answer.ok) show(text);
    state.textContent = answer.ok ? live : text;
    return answer.headers.get("ETag") ?? "";
  } catch {
    state.textContent = state.dataset.lost ?? "";
    return etag;
  }
}

async function follow() {
  for (let etag = ""; ; ) {
    etag = await ask(etag);
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

elementOf("form").addEventListener("change", () => /** @type {HTMLFormElement} */ (elementOf("form")).requestSubmit());
follow();
