// What it costs: weights and cache of a model under a load, and how many requests each GPU holds.

import { html } from "../../../kit/html.js";
import { t } from "../../../tell/words.js";
import { useAnswer } from "../../answer.js";
import { Choose, Count } from "../../controls.js";
import { inputs, name, number } from "../../inputs.js";
import { ScaleNumber, valueText } from "../../number.js";

/** @type {import("../../../state/settings.js").SettingTable} */
export const TABLE = {
  model: { type: name, initial: "llama-3.1-8b", place: true },
  kv_dtype: { type: name, initial: "float16", place: true },
  dtype: { type: name, initial: "float16", place: true },
  batch: { type: number, initial: 16, place: true },
  context: { type: number, initial: 2048, place: true },
  max_model_len: { type: number, initial: 8192, place: true },
  shared_prefix: { type: number, initial: 0, place: true },
  tensor_parallel: { type: number, initial: 1, place: true },
};

const COUNTS = ["batch", "context", "max_model_len", "shared_prefix", "tensor_parallel"];
const HELD = ["kv_room", "reserved", "paged", "shared"]; // the columns, of which the last may be missing
const values = inputs(TABLE);

/** @typedef {import("../../number.js").Derived} Derived */
/** @typedef {{id: string, name: string, memory_bytes: number, numbers: Derived[]}} Gpu */
/** @typedef {{id: string, name: string}} Choice */

export function Section() {
  const asked = Object.fromEntries(Object.entries(values).map(([one, held]) => [one, held.value]));
  const { value, problem } = useAnswer("size", asked);
  const plain = (/** @type {string} */ id) => ({ id, name: id });
  return html`<div class="scale-controls">
      ${choice("model", value?.models ?? [plain(asked.model)])}
      ${choice("kv_dtype", (value?.kv_dtypes ?? [asked.kv_dtype]).map(plain))}
      ${choice("dtype", (value?.dtypes ?? [asked.dtype]).map(plain))}
      ${COUNTS.map((id) => {
        const least = id === "shared_prefix" ? 0 : 1;
        return html`<${Count} key=${id} section="size" id=${id} held=${values[id]} least=${least} />`;
      })}
    </div>
    ${problem ? html`<p class="scale-problem" role="alert">${problem}</p>` : null}
    ${
      value
        ? html`<div id="scale-sizes">
            ${value.sizes.map(numberOf)}
          </div>
          <h3>${t("scale.size.fits")}</h3>
          <p class="hint">${t("scale.size.fits.hint")}</p>
          <${Fits} gpus=${value.gpus} />
          <p class="hint">${t("scale.size.source", { source: value.model.source, dated: value.model.dated })}</p>`
        : null
    }`;
}

/**
 * @param {string} id
 * @param {Choice[]} choices
 */
const choice = (id, choices) => html`<${Choose} section="size" id=${id} held=${values[id]} choices=${choices} />`;

/** @param {Derived} one */
const numberOf = (one) => html`<${ScaleNumber} key=${one.id} number=${one} section="size" />`;

/** @param {{gpus: Gpu[]}} props */
function Fits({ gpus }) {
  const shown = HELD.filter((id) => gpus.some(({ numbers }) => numbers.some((one) => one.id === id)));
  return html`<div class="scale-wide" tabindex="0" role="region" aria-label=${t("scale.size.fits")}>
    <table class="scale-table" id="scale-fits">
      <thead>
        <tr>
          <th scope="col">${t("scale.size.gpu")}</th>
          ${shown.map((id) => html`<th key=${id} scope="col">${t(`scale.size.${id}`)}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${gpus.map(
          (gpu) => html`<tr key=${gpu.id} data-gpu=${gpu.id}>
            <th scope="row">${gpu.name}</th>
            ${shown.map((id) => {
              const found = gpu.numbers.find((one) => one.id === id);
              return html`<td key=${id} title=${found?.formula} data-number=${id}>
                ${found ? valueText(found) : "–"}
              </td>`;
            })}
          </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}
