// List of the scenarios, in groups.

import { useEffect, useRef } from "../../vendor/preact/hooks.js";
import { inLanguage, t } from "../i18n/words.js";
import { html } from "../kit/html.js";
import { markPlace } from "../state/settings.js";
import { link } from "./link.js";
import { dropped, goTo, recordsOf, scenarios } from "./store.js";

/** @type {Record<string, string[]>} */
const GROUPS = {
  against: [
    "against-no-cache",
    "against-transformers",
    "against-engines",
    "against-engines-half-billion",
    "against-vllm",
  ],
  cache: ["cache-over-length", "prefix-sharing", "kv-tiers", "parallel-sampling", "beam-search"],
  blocks: [
    "contiguous-or-paged",
    "block-size",
    "kv-heads",
    "kv-dtype-error",
    "kv-dtype-speed",
    "forgetting",
    "forgetting-copy",
  ],
  scheduling: ["arrivals", "chunked-prefill", "preemption"],
  instances: ["kv-disaggregated", "kv-long-prompt", "kv-routing", "early-rejection"],
  compute: [
    "prefill-saturation",
    "prefill-two-axes",
    "decode-batch",
    "speculation",
    "decode-context",
    "weight-dtype-speed",
    "weight-dtype-error",
    "step-time",
    "step-parts",
    "gpu-decode",
  ],
  method: ["runner-noise", "observation", "simulated-runs", "guard"],
};

/**
 * Link to a scenario, or with null to all headlines. Modified clicks open it as an ordinary link.
 * @param {{id: string | null, children: unknown, "aria-current"?: "page" | null}} props
 */
export function ScenarioLink({ id, children, ...rest }) {
  const open = (/** @type {MouseEvent} */ event) => {
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.button) return;
    event.preventDefault();
    markPlace();
    goTo(id);
    globalThis.scrollTo(0, 0);
  };
  const address = id ? `bench?scenario=${encodeURIComponent(id)}` : "bench";
  return html`<a href=${address} onClick=${open} ...${rest}>${children}</a>`;
}

export function List() {
  const known = new Map(scenarios.value.map((card) => [card.id, card]));
  const grouped = new Set(Object.values(GROUPS).flat());
  const groups = { ...GROUPS, other: [...known.keys()].filter((id) => !grouped.has(id)) };
  const here = link.scenario.value;
  const ref = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    const box = ref.current;
    const current = box?.querySelector("[aria-current]"); // scroll a short list to the current entry
    if (box && current)
      box.scrollTop += current.getBoundingClientRect().top - box.getBoundingClientRect().top - box.clientHeight / 3;
  }, [here]);
  const item = (/** @type {string} */ id) => {
    const empty = !recordsOf(id).length && !dropped.value.some(({ record }) => record.scenario.id === id);
    const title = inLanguage(known.get(id)?.title ?? { en: id, zh: id });
    return html`<li key=${id}>
      <${ScenarioLink} id=${id} aria-current=${here === id ? "page" : null}>
        ${title}${empty ? html` <span class="hint">${t("bench.no_record")}</span>` : null}
      <//>
    </li>`;
  };
  return html`<nav class="bench-list" ref=${ref} aria-label=${t("bench.list")}>
    <p><${ScenarioLink} id=${null} aria-current=${here === null ? "page" : null}>${t("bench.overview")}<//></p>
    ${Object.entries(groups).map(([name, ids]) => {
      const present = ids.filter((id) => known.has(id));
      return present.length
        ? html`<h2 key=${name}>${t(`bench.group.${name}`)}</h2><ul>${present.map(item)}</ul>`
        : null;
    })}
  </nav>`;
}
