// The prefix cache at the record that is looked at, once somebody opens it: the server answers from its survey.

import { useEffect, useState } from "../../../vendor/preact/hooks.js";
import { html } from "../../kit/html.js";
import { withValue } from "../../kit/inputs.js";
import { place, prefixesAt } from "../../net/surveyed.js";
import { own } from "../../state/store.js";
import { t } from "../../tell/words.js";

/** @typedef {import("../../core/branch_rows.js").Branches} Branches */

const STILL = 250; // ms at one record before its tree is asked for

/** @param {{branches: import("../../kit/html.js").Component, observed: boolean}} props `branches`: draws them */
export function Prefixes({ branches, observed }) {
  const [isOpen, setOpen] = useState(false);
  const [instance, setInstance] = useState(0);
  const [found, setFound] = useState(/** @type {Branches | null} */ (null));
  const [problem, setProblem] = useState("");
  const at = place.value;
  const instances = own.large.value?.header.instances ?? [];
  useEffect(() => {
    if (!isOpen || at < 0) return undefined;
    let over = false;
    const timer = setTimeout(() => {
      prefixesAt(at, instance).then(
        (answer) => over || (setFound(answer), setProblem("")),
        (error) => over || setProblem(error.message),
      );
    }, STILL);
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, [isOpen, at, instance]);
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
