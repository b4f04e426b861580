// Input controls of a section: choices, counts and sliders, labelled by the section's words.

import { t } from "../i18n/words.js";
import { html } from "../kit/html.js";
import { Numeric, Select } from "../kit/inputs.js";
import { boundsOf } from "./inputs.js";

/**
 * @typedef {import("../../vendor/signals/signals.js").Signal<any>} Held
 * @typedef {Event & {currentTarget: HTMLInputElement | HTMLSelectElement}} Changed
 */

/** Text of a label, which may wrap after underscores. @param {{text: string}} props */
function Title({ text }) {
  const [first, ...more] = text.split("_");
  return html`<span>${first}${more.map((part) => html`_<wbr />${part}`)}</span>`;
}

/**
 * Select list; the first choice is selected if there is no value.
 * @param {{section: string, id: string, held: Held, choices: {id: string, name: string}[]}} props
 */
export function Choose({ section, id, held, choices }) {
  return html`<label>
    <${Title} text=${t(`scale.${section}.${id}`)} />
    <${Select} id=${`scale-${id}`} value=${held.value || choices[0]?.id}
      choices=${choices.map((one) => [one.id, one.name])} commit=${(/** @type {string} */ one) => (held.value = one)} />
  </label>`;
}

/**
 * Number field with the server's bounds. `param`: query parameter, by default `id`. `unit`: the field shows value/unit.
 * @param {{section: string, id: string, held: Held, param?: string, unit?: number}} props
 */
export function Count({ section, id, held, param = id, unit = 1 }) {
  return html`<label>
    <${Title} text=${t(`scale.${section}.${id}`)} />
    <${NumberIn} id=${`scale-${id}`} bounds=${boundsOf(section, param)} held=${held} unit=${unit} />
  </label>`;
}

/**
 * Number field with the server's bounds, and a slider over the usual range.
 * @param {{section: string, id: string, held: Held, least: number, most: number, step: number, param?: string}} props
 */
export function Slider({ section, id, held, least, most, step, param = id }) {
  const title = t(`scale.${section}.${id}`);
  const now = held.value;
  const moved = (/** @type {Changed} */ event) => {
    held.value = Number(event.currentTarget.value);
  };
  return html`<label>
    <${Title} text=${title} />
    <${NumberIn} bounds=${boundsOf(section, param)} held=${held} aria-label=${title} />
    <input id=${`scale-${id}`} type="range" min=${least} max=${most} step=${step} value=${now} onInput=${moved} />
  </label>`;
}

/** @param {{bounds: import("../state/options.js").Bounds, held: Held, unit?: number, [rest: string]: unknown}} props */
function NumberIn({ bounds, held, unit = 1, ...rest }) {
  const { min, over, max, whole } = bounds;
  const scaled = (/** @type {number | null | undefined} */ n) => (n === null || n === undefined ? n : n / unit);
  const shown = { min: scaled(min), over: scaled(over), max: scaled(max), whole: whole && unit === 1 };
  const commit = (/** @type {number} */ n) => {
    held.value = n * unit;
  };
  return html`<${Numeric} ...${rest} bounds=${shown} step=${shown.whole ? "1" : "any"} value=${held.value / unit}
    commit=${commit} eager />`;
}

/**
 * Field for integers separated by commas. `usual`: the server's default, which applies to an empty field.
 * @param {{section: string, id: string, held: Held, usual: number[]}} props
 */
export function List({ section, id, held, usual }) {
  const change = (/** @type {Changed} */ event) => {
    held.value = event.currentTarget.value.replaceAll(/\s/g, "");
  };
  return html`<label>
    <${Title} text=${t(`scale.${section}.${id}`)} />
    <input id=${`scale-${id}`} type="text" inputmode="numeric" placeholder=${usual.join(",")} value=${held.value}
      onChange=${change} />
  </label>`;
}
