// Entry of the page /prompts/traffic, which shows and follows the report about a growing file.

const PAUSE = 1000; // ms between two questions whether the file has grown
const KEYED = "details[data-request]";

/** @param {string} selector @returns {HTMLElement} */
const found = (selector) => /** @type {HTMLElement} */ (document.querySelector(selector));

/** @param {ParentNode} parent @returns {Map<string, HTMLDetailsElement>} */
function turnsIn(parent) {
  const turns = /** @type {NodeListOf<HTMLDetailsElement>} */ (parent.querySelectorAll(KEYED));
  return new Map([...turns].map((turn) => [turn.dataset.request ?? "", turn]));
}

/** Put a new report in place of the one before; what was open stays open, and what had the focus has it.
 * @param {string} text */
function show(text) {
  const next = new DOMParser().parseFromString(text, "text/html").querySelector("main");
  if (!next) return;
  const before = found("main");
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

/** @param {string} mark of the report that is shown; "": none is. @returns {Promise<string>} of the one that is now */
async function ask(mark) {
  const headers = mark ? { "If-None-Match": mark } : undefined;
  const state = found("#state");
  try {
    const answer = await fetch(`traffic/report${location.search}`, { headers, cache: "no-store" });
    const { live = "", waiting = "" } = state.dataset;
    if (answer.status === 304) {
      state.textContent = live;
      return mark;
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
    return mark;
  }
}

async function follow() {
  for (let mark = ""; ; ) {
    mark = await ask(mark);
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
  }
}

found("form").addEventListener("change", () => /** @type {HTMLFormElement} */ (found("form")).requestSubmit());
follow();
