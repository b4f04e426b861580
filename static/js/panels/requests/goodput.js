// Goodput: requests per second that met an objective, predefined or custom, and the requests that missed it.

import { goodput, milliseconds, sloOf, sloText } from "../../core/goodput.js";
import { grouped, secondsText, t } from "../../i18n/words.js";
import { Swatch } from "../../kit/colour.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { Numeric, Select } from "../../kit/inputs.js";
import { Term } from "../../kit/term.js";
import { APPLICATIONS } from "../../state/options.js";
import { settings } from "../../state/settings.js";

/** @import {Slo} from "../../core/goodput.js" */

const MAX_LISTED = 5;
const CUSTOM = "own";

/** @param {{figures: import("./lists.js").Figures, open: (seq: number) => void}} props */
export function GoodputSection({ figures, open }) {
  const chosen = settings.slo.value;
  const slo = /** @type {Slo} */ (sloOf(chosen, APPLICATIONS)); // the setting has only valid texts
  const { met, ended, perSecond, missed } = goodput(figures.rows, figures.seconds, slo);
  const numMore = missed.length - MAX_LISTED;
  const limits = { ttft: grouped(milliseconds(slo.ttft)), tpot: grouped(milliseconds(slo.tpot)) };
  const formula = t("requests.goodput_formula", { ...limits, seconds: secondsText(figures.seconds) });
  return html`<section aria-labelledby="requests-goodput" id="goodput">
    <h3 class="panel-title" id="requests-goodput">
      <${Term} id="goodput">${t("requests.goodput")}<//> <${Fidelity} kind="derived" formula=${formula} />
    </h3>
    <div class="goodput-slo">
      <${Select} id="slo" aria-label=${t("requests.slo")} title=${t("requests.slo.source")}
        value=${chosen in APPLICATIONS ? chosen : CUSTOM}
        choices=${[...Object.keys(APPLICATIONS), CUSTOM].map((name) => [name, t(`requests.slo.${name}`)])}
        commit=${(/** @type {string} */ name) => (settings.slo.value = name === CUSTOM ? sloText(slo) : name)} />
      <${Limit} slo=${slo} name="ttft" /><${Limit} slo=${slo} name="tpot" />
    </div>
    <p class="goodput-said" role="status">${
      ended
        ? t("requests.goodput_met", { met: grouped(met), n: ended, rate: grouped((perSecond ?? 0).toPrecision(3)) })
        : t("requests.goodput_none")
    }</p>
    ${
      missed.length
        ? html`<ol>
          ${missed.slice(0, MAX_LISTED).map(
            ({ seq, request, ttft, tpot }) => html`<li key=${seq}>
              <button class="decision" onClick=${() => open(seq)}>
                <b><${Swatch} id=${seq} />${request}</b>
                <span>TTFT ${secondsText(ttft)} · TPOT ${secondsText(tpot)}</span>
              </button>
            </li>`,
          )}
        </ol>
        ${numMore > 0 ? html`<p class="hint">${t("requests.goodput_more", { n: numMore })}</p>` : null}`
        : null
    }
  </section>`;
}

const BOUNDS = { min: 0.001, max: 1e9 }; // ms

/** Field of one of the two limits. Editing it makes the objective custom. @param {{slo: Slo, name: keyof Slo}} props */
function Limit({ slo, name }) {
  const commit = (/** @type {number} */ n) => (settings.slo.value = sloText({ ...slo, [name]: n / 1000 }));
  return html`<label class="goodput-limit">${name.toUpperCase()} ≤
    <${Numeric} id=${`slo-${name}`} bounds=${BOUNDS} step="any"
      aria-label=${t(`requests.slo.${name}`)} value=${milliseconds(slo[name])} commit=${commit} /> ms</label>`;
}
