// The scenarios, in groups.

import { useEffect, useRef } from "../../vendor/preact/hooks.js";
import { html } from "../kit/html.js";
import { markPlace } from "../state/settings.js";
import { inLanguage, t } from "../tell/words.js";
import { link } from "./link.js";
import { dropped, goTo, recordsOf, scenarios } from "./store.js";

const GROUPS = {
  against: ["against-no-cache", "against-transformers"],
  cache: ["cache-over-length", "prefix-sharing", "parallel-sampling", "beam-search"],
  blocks: ["contiguous-or-paged", "block-size", "kv-heads", "kv-dtype-error", "kv-dtype-speed"],
  scheduling: ["arrivals", "chunked-prefill", "preemption"],
  compute: ["prefill-saturation", "decode-batch", "step-parts", "gpu-decode"],
  method: ["runner-noise", "observation", "guard"],
};

/** A link that looks at a scenario; null: at the headlines of all. Opened elsewhere, it is an address as any. */
export function ScenarioLink({ id, children, ...rest }) {
  const open = (event) => {
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.button) return;
    event.preventDefault();
    markPlace();
    goTo(id);
    globalThis.scrollTo(0, 0);
  };
  return html`<a href=${id ? `/bench?scenario=${encodeURIComponent(id)}` : "/bench"} onClick=${open} ...${rest}>${children}</a>`;
}

export function List() {
  const known = new Map(scenarios.value.map((card) => [card.id, card]));
  const grouped = new Set(Object.values(GROUPS).flat());
  const groups = { ...GROUPS, other: [...known.keys()].filter((id) => !grouped.has(id)) };
  const here = link.scenario.value;
  const box = useRef(null);
  useEffect(() => {
    const current = box.current.querySelector("[aria-current]"); // in sight where the list is a small one
    if (current)
      box.current.scrollTop +=
        current.getBoundingClientRect().top - box.current.getBoundingClientRect().top - box.current.clientHeight / 3;
  }, [here]);
  const item = (id) => {
    const empty = !recordsOf(id).length && !dropped.value.some(({ record }) => record.scenario.id === id);
    return html`<li key=${id}>
      <${ScenarioLink} id=${id} aria-current=${here === id ? "page" : null}>${inLanguage(known.get(id).title)}${empty ? html` <span class="hint">${t("bench.no_record")}</span>` : null}<//>
    </li>`;
  };
  return html`<nav class="bench-list" ref=${box} aria-label=${t("bench.list")}>
    <p><${ScenarioLink} id=${null} aria-current=${here === null ? "page" : null}>${t("bench.overview")}<//></p>
    ${Object.entries(groups).map(([name, ids]) => {
      const present = ids.filter((id) => known.has(id));
      return present.length
        ? html`<h2 key=${name}>${t(`bench.group.${name}`)}</h2><ul>${present.map(item)}</ul>`
        : null;
    })}
  </nav>`;
}
