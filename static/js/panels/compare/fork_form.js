// Form of a fork, for the change to make at the shown record.

import { useLayoutEffect, useRef } from "../../../vendor/preact/hooks.js";
import { focusTarget, formOpen, KINDS, kind, problem, progress } from "../../control/fork.js";
import { grouped, t } from "../../i18n/words.js";
import { html } from "../../kit/html.js";
import { viewIndex } from "../../state/store.js";
import { AbortFields, ConfigFields, RequestFields, SamplingFields, TokenFields } from "./fork_fields.js";

/** @import {Kind} from "../../control/fork.js" */

const FIELDS = {
  token: TokenFields,
  request: RequestFields,
  abort: AbortFields,
  sampling: SamplingFields,
  config: ConfigFields,
};

export function ForkForm() {
  const now = kind.value;
  const Fields = FIELDS[now];
  const form = useRef(/** @type {HTMLElement | null} */ (null));
  useLayoutEffect(() => {
    if (focusTarget.value !== "form") return;
    focusTarget.value = null;
    /** @type {HTMLElement | null | undefined} */ (form.current?.querySelector('[aria-pressed="true"]'))?.focus();
  }, [focusTarget.value]);
  return html`<section class="fork-form" id="fork-form" aria-label=${t("fork.title")} ref=${form} onKeyDown=${onKey}>
    <div class="segmented-small" role="group" aria-label=${t("fork.what")}>
      ${KINDS.map(
        (
          name,
        ) => html`<button key=${name} id=${`fork-${name}`} aria-pressed=${now === name} onClick=${() => choose(name)}>
          ${t(`fork.kind.${name}`)}
        </button>`,
      )}
    </div>
    <${Fields} key=${now} />
    ${problem.value ? html`<p class="compare-problem" id="fork-problem">${problem.value}</p>` : null}
    <p class="hint fork-note" id="fork-note" aria-live="polite">${note(now)}</p>
  </section>`;
}

/** Close the form on Escape and focus the button that opens it. @param {KeyboardEvent} event */
function onKey(event) {
  if (event.key !== "Escape") return;
  event.stopPropagation();
  formOpen.value = false;
  document.getElementById("compare-fork")?.focus();
}

/** @param {Kind} name */
function choose(name) {
  kind.value = name;
  problem.value = null;
}

/** Note on which records the fork repeats, or its progress. @param {Kind} now */
function note(now) {
  if (progress.value) return t("fork.progress", { done: grouped(progress.value.done), of: grouped(progress.value.of) });
  if (now === "config") return t("fork.note.config");
  const at = now === "token" ? viewIndex.value : viewIndex.value + 1;
  return t(`fork.note.${now === "token" ? "token" : "at"}`, { n: grouped(at) });
}
