// Derivation of K, the speed-up when n GPUs split a prefill, from a model, a GPU, a link and a prompt length.

import { inLanguage, t } from "../../../i18n/words.js";
import { Fidelity } from "../../../kit/fidelity.js";
import { html } from "../../../kit/html.js";
import { Choose, Slider } from "../../controls.js";
import { name, numberOf } from "../../inputs.js";
import { ScaleNumber } from "../../number.js";

/** @typedef {import("../../../../vendor/signals/signals.js").Signal<any>} Held */
/** @typedef {{id: string, name: string}} ListOption */
/**
 * As defined in `app/scale/queues.py`.
 *
 * @typedef {{
 *   models: ListOption[], gpus: ListOption[], links: ListOption[], numbers: import("../../number.js").Derived[],
 *   refused: Record<string, string> | null
 * }} SplitAnswer
 */

/** @type {import("../../../state/settings.js").SettingTable} */
export const TABLE = {
  q_model: { type: name, initial: "opt-66b", place: true },
  q_gpu: { type: name, initial: "a100-80gb", place: true },
  q_link: { type: name, initial: "nvlink-3", place: true },
  q_prompt_tokens: { type: numberOf("queues", "prompt_tokens"), initial: 512, place: true },
};

/** Query parameters by name of the setting. @type {Record<string, string>} */
export const PARAMS = { q_model: "model", q_gpu: "gpu", q_link: "link", q_prompt_tokens: "prompt_tokens" };

const LENGTHS = { least: 16, most: 2048, step: 16 };

/** @param {{answer: SplitAnswer, values: Record<string, Held>}} props */
export function Split({ answer, values }) {
  const { models, gpus, links, numbers, refused } = answer;
  const speedup = numbers.at(-1);
  const alone = numbers[0];
  const use = () => {
    values.q_service.value = rounded(alone.value);
    values.q_speedup.value = rounded(speedup?.value ?? 1);
  };
  const choice = (/** @type {string} */ id, /** @type {ListOption[]} */ choices) =>
    html`<${Choose} section="queues" id=${id} held=${values[id]} choices=${choices} />`;
  return html`<h3>${t("scale.queues.split")} <${Fidelity} kind="derived" formula="K = D / (D / n + A)" /></h3>
    <p class="hint">${t("scale.queues.split.hint")}</p>
    <div class="scale-controls">
      ${choice("q_model", models)} ${choice("q_gpu", gpus)} ${choice("q_link", links)}
      <${Slider} section="queues" id="q_prompt_tokens" param="prompt_tokens" held=${values.q_prompt_tokens}
        ...${LENGTHS} />
    </div>
    ${refused ? html`<p class="scale-problem">${inLanguage(refused)}</p>` : null}
    <div id="scale-split">
      ${numbers.map((one) => html`<${ScaleNumber} key=${one.id} number=${one} section="queues" />`)}
    </div>
    ${
      speedup === undefined
        ? null
        : speedup.value > 1
          ? html`<p>
              <button class="tool" id="scale-split-use" onClick=${use}>${t("scale.queues.split.use")}</button>
            </p>`
          : html`<p id="scale-split-slower">${t("scale.queues.split.slower")}</p>`
    }`;
}

/** Round to three significant digits, as the sliders show. @param {number} value */
const rounded = (value) => Number(value.toPrecision(3));
