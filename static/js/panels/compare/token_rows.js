// Tokens of both runs, request by request: the common prefix once, then the two continuations in parallel.

import { useState } from "../../../vendor/preact/hooks.js";
import { grouped, langOf, t } from "../../i18n/words.js";
import { Swatch } from "../../kit/colour.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { placeClass } from "../../runs/side_by_side.js";
import { labelsOf, placesShown } from "../../runs/tokens.js";
import { alignedPair, foldedPairs, SIDES } from "./comparison.js";
import { look } from "./model.js";

/** @import {Token} from "../../runs/tokens.js" */
/** @import {Answer, SequencePair, Side} from "./comparison.js" */

/** @param {KeyboardEvent & {currentTarget: HTMLElement}} event */
function walk(event) {
  const box = event.currentTarget;
  const of = (/** @type {string} */ side) => buttons(box, side);
  const focused = document.activeElement?.closest(".compare-token");
  const at = focused instanceof HTMLElement ? focused : null;
  const lane = of(at?.dataset.side ?? "a");
  const place = at ? lane.indexOf(at) : -1;
  const other = (/** @type {string} */ side) => {
    const column = at?.closest(".runs-place");
    return column ? buttons(column, side)[0] : undefined;
  };
  /** @type {Record<string, () => HTMLElement | undefined>} */
  const ways = {
    ArrowRight: () => lane[place + 1],
    ArrowLeft: () => lane[place - 1],
    Home: () => lane[0],
    End: () => lane.at(-1),
    ArrowDown: () => other("b"),
    ArrowUp: () => other("a"),
  };
  const next = ways[event.key];
  if (!next) return;
  event.preventDefault();
  (next() ?? (place < 0 ? (lane[0] ?? of("b")[0]) : null))?.focus();
}

/** @param {Element} box @param {string} side @returns {HTMLElement[]} */
const buttons = (box, side) => [...box.querySelectorAll(/** @type {"button"} */ (`button[data-side="${side}"]`))];

/** Tokens rendered before and after the first difference. */
const SPAN = { before: 24, after: 128 };

/** @param {{now: Answer}} props */
export function TokenRows({ now }) {
  const { shown, apart, same } = foldedPairs(now.sequences);
  const lanes = (/** @type {SequencePair[]} */ pairs) =>
    pairs.map((pair) => html`<${Pair} key=${keyOf(pair)} pair=${pair} first=${now.first_token} />`);
  const more = t("compare.folded_apart", { n: apart.length });
  const all = t(shown.length ? "compare.folded" : "compare.folded_all", { n: same.length });
  return html`<section class="compare-lanes" aria-label=${t("compare.tokens")}>
    <h3 class="panel-title">${t("compare.tokens")} <${Fidelity} kind="captured" /></h3>
    ${lanes(shown)}
    <${Folded} key="apart" id="compare-apart" text=${more} pairs=${apart} lanes=${lanes} />
    <${Folded} key="same" id="compare-same" text=${all} pairs=${same} lanes=${lanes} />
  </section>`;
}

/** Key of a sequence in both runs. @param {{request_id: string, number: number, member: number}} pair */
export const keyOf = (pair) => `${pair.request_id}/${pair.number}/${pair.member}`;

/**
 * Collapsed lanes, rendered when they are opened.
 * @param {{id: string, text: string, pairs: SequencePair[], lanes: (pairs: SequencePair[]) => unknown}} props
 */
function Folded({ id, text, pairs, lanes }) {
  const [open, setOpen] = useState(false);
  if (!pairs.length) return null;
  const toggled = (/** @type {Event & {currentTarget: HTMLDetailsElement}} */ event) =>
    setOpen(event.currentTarget.open);
  return html`<details class="compare-folded" id=${id} onToggle=${toggled}>
    <summary>${text}</summary>
    ${open ? lanes(pairs) : null}
  </details>`;
}

/** @param {{pair: SequencePair, first: Answer["first_token"]}} props */
function Pair({ pair, first }) {
  const aligned = alignedPair(pair);
  const { lanes, same, difference } = aligned;
  const labels = lanes.map(labelsOf);
  const [from, to] = placesShown(aligned, SPAN);
  const later = Math.max(...lanes.map((lane) => lane.length)) - to;
  const earliest = difference && first && keyOf(first) === keyOf(pair) ? " earliest" : "";
  const member = pair.member ? html`<span> · ${t("compare.member", { n: pair.member + 1 })}</span>` : null;
  const token = (/** @type {number} */ lane, /** @type {number} */ place, both = false) => {
    const [chosen, label] = [lanes[lane][place], labels[lane][place]];
    return html`<${TokenButton} key=${place} side=${SIDES[lane]} token=${chosen} label=${label} both=${both} />`;
  };
  return html`<div class="compare-pair" data-request=${pair.request_id} data-equal=${pair.equal_tokens}>
    <p class="compare-request">
      <${Swatch} id=${(pair.a ?? pair.b)?.seq_id} /><b>${pair.request_id}</b>${member}${" "}
      <span class="compare-equal num">${verdict(pair)}</span>
    </p>
    <div
      class="runs-columns compare-tokens"
      role="group"
      tabindex="0"
      data-arrows
      aria-label=${t("compare.lanes_of", { request: pair.request_id })}
      onKeyDown=${walk}
    >
      <div class="compare-names" aria-hidden="true"><span class="a">A</span><span class="b">B</span></div>
      ${
        same
          ? html`<div class="compare-same" lang=${langOf(labels[0].slice(from, same).join(""))}>
            ${from ? html`<span class="compare-more">${t("compare.earlier", { n: from })}</span>` : null}
            ${places(from, same).map((place) => token(0, place, true))}
          </div>`
          : null
      }
      ${places(same, to).map(
        (place) => html`<div class=${`${placeClass(aligned, place)}${place === same ? earliest : ""}`} key=${place}>
          ${lanes.map((_, lane) => token(lane, place))}
        </div>`,
      )}
      ${later > 0 ? html`<span class="compare-more">${t("compare.later", { n: later })}</span>` : null}
    </div>
  </div>`;
}

/** @type {(from: number, to: number) => number[]} */
const places = (from, to) => Array.from({ length: Math.max(0, to - from) }, (_, k) => from + k);

/**
 * A sampled token as a button that shows its record. Arrow keys move within a lane.
 * @param {{side: Side, token: Token | undefined, label: string, both: boolean}} props
 */
function TokenButton({ side, token, label, both }) {
  if (!token) return html`<span class="compare-none" aria-hidden="true">·</span>`;
  const where = { side: side.toUpperCase(), token: label, n: grouped(token.record + 1) };
  const name =
    t(both ? "compare.token_both" : "compare.token", where) + (token.chosen ? t("compare.from_outside") : "");
  return html`<button
    class=${`compare-token generated${token.chosen ? " chosen" : ""}`}
    tabindex="-1"
    data-side=${side}
    aria-label=${name}
    title=${name}
    lang=${langOf(label)}
    onClick=${() => look(side, token.record)}
  >
    ${label}
  </button>`;
}

/** @param {SequencePair} pair */
export function verdict(pair) {
  if (!pair.a || !pair.b) return t(pair.a ? "compare.only_a" : "compare.only_b");
  if (!pair.same_prompt) return t("compare.other_prompt");
  if (pair.difference) return t("compare.parts", { n: grouped(pair.equal_tokens) });
  const unequal = pair.a.tokens.length !== pair.b.tokens.length;
  return t(unequal ? "compare.as_far" : "compare.all_same", { n: grouped(pair.equal_tokens) });
}
