// Input controls of a section: choices, counts and sliders, labelled by the section's words.

import { t } from "../i18n/words.js";
import { html } from "../kit/html.js";

/**
 * @typedef {import("../../vendor/signals/signals.js").Signal<any>} Held
 * @typedef {Event & {currentTarget: HTMLInputElement | HTMLSelectElement}} Changed
 */

/**
 * Without a value, the first choice applies.
 *
 * @param {{section: string, id: string, held: Held, choices: {id: string, name: string}[]}} props
 */
export function Choose({ section, id, held, choices }) {
  const change = (/** @type {Changed} */ event) => {
    held.value = event.currentTarget.value;
  };
  return html`<label>
    ${t(`scale.${section}.${id}`)}
    <select id=${`scale-${id}`} value=${held.value || choices[0]?.id} onChange=${change}>
      ${choices.map((one) => html`<option key=${one.id} value=${one.id}>${one.name}</option>`)}
    </select>
  </label>`;
}

/**
 * `unit`: the factor of the value shown in the field.
 *
 * @param {{section: string, id: string, held: Held, least?: number, step?: string, unit?: number}} props
 */
export function Count({ section, id, held, least = 1, step = "1", unit = 1 }) {
  return html`<label>
    ${t(`scale.${section}.${id}`)}
    <input id=${`scale-${id}`} type="number" min=${least} step=${step} value=${held.value / unit}
      onInput=${takes(held, unit)} />
  </label>`;
}

/** @param {{section: string, id: string, held: Held, least: number, most: number, step: number}} props */
export function Slider({ section, id, held, least, most, step }) {
  const title = t(`scale.${section}.${id}`);
  const change = takes(held);
  const now = held.value;
  return html`<label>
    ${title}
    <input type="number" min=${least} step="any" value=${now} aria-label=${title} onChange=${change} />
    <input id=${`scale-${id}`} type="range" min=${least} max=${most} step=${step} value=${now} onInput=${change} />
  </label>`;
}

/**
 * Whole numbers separated by commas; if empty, the server's default `usual`.
 *
 * @param {{section: string, id: string, held: Held, usual: number[]}} props
 */
export function List({ section, id, held, usual }) {
  const change = (/** @type {Changed} */ event) => {
    held.value = event.currentTarget.value.replaceAll(/\s/g, "");
  };
  return html`<label>
    ${t(`scale.${section}.${id}`)}
    <input id=${`scale-${id}`} type="text" inputmode="numeric" placeholder=${usual.join(",")} value=${held.value}
      onChange=${change} />
  </label>`;
}

/** @param {Held} held @param {number} unit */
function takes(held, unit = 1) {
  return (/** @type {Changed} */ event) => {
    if (event.currentTarget.value !== "") held.value = unit * Number(event.currentTarget.value);
  };
}
