// The prefix cache at the record that is looked at, once somebody opens it: the server answers from its survey.

import { useState } from "../../../vendor/preact/hooks.js";
import { useAnswer } from "../../kit/answer.js";
import { html } from "../../kit/html.js";
import { withValue } from "../../kit/inputs.js";
import { place, prefixesAt, STILL } from "../../net/surveyed.js";
import { own } from "../../state/store.js";
import { t } from "../../tell/words.js";

/** @param {{branches: import("../../kit/html.js").Component, observed: boolean}} props `branches`: draws them */
export function Prefixes({ branches, observed }) {
  const [isOpen, setOpen] = useState(false);
  const [instance, setInstance] = useState(0);
  const at = place.value;
  const instances = own.large.value?.header.instances ?? [];
  const isAsked = isOpen && at >= 0;
  const { answer: found, problem } = useAnswer(
    isAsked ? () => prefixesAt(at, instance) : null,
    [isAsked, at, instance],
    STILL,
  );
  return html`<details class="large-prefixes" id="large-prefixes" onToggle=${(/** @type {Event} */ event) =>
    setOpen(/** @type {HTMLDetailsElement} */ (event.currentTarget).open)}>
    <summary>${t("large.prefixes")}</summary>
    ${
      instances.length > 1
        ? html`<select aria-label=${t("large.prefixes.instance")} onChange=${withValue((text) =>
            setInstance(Number(text)),
          )}>${instances.map(
            ({ name }, i) => html`<option key=${i} value=${i} selected=${i === instance}>${name}</option>`,
          )}</select>`
        : null
    }
    ${problem ? html`<p class="large-trouble" role="alert">${problem}</p>` : null}
    ${isOpen && found ? html`<${branches} found=${found} observed=${observed} />` : null}
  </details>`;
}
