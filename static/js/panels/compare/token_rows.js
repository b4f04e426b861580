// Tokens of both runs, request by request: the common prefix once, then the two continuations in parallel.

import { useState } from "../../../vendor/preact/hooks.js";
import { grouped, langOf, t } from "../../i18n/words.js";
import { Swatch } from "../../kit/colour.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { placeClass } from "../../runs/side_by_side.js";
import { labelsOf, placesShown } from "../../runs/tokens.js";
import { alignedPair, foldedPairs, SIDES } from "./comparison.js";
import { showRecord } from "./model.js";

/** @import {Token} from "../../runs/tokens.js" */
/** @import {Answer, SequencePair, Side} from "./comparison.js" */

/** @param {KeyboardEvent & {currentTarget: HTMLElement}} event */
function moveFocus(event) {
  const box = event.currentTarget;
  const laneOf = (/** @type {string} */ side) => buttons(box, side);
  const focused = document.activeElement?.closest(".compare-token");
  const current = focused instanceof HTMLElement ? focused : null;
  const lane = laneOf(current?.dataset.side ?? "a");
  const place = current ? lane.indexOf(current) : -1;
  const otherSide = (/** @type {string} */ side) => {
    const column = current?.closest(".runs-place");
    return column ? buttons(column, side)[0] : undefined;
  };
  /** @type {Record<string, () => HTMLElement | undefined>} */
  const targets = {
    ArrowRight: () => lane[place + 1],
    ArrowLeft: () => lane[place - 1],
    Home: () => lane[0],
    End: () => lane.at(-1),
    ArrowDown: () => otherSide("b"),
    ArrowUp: () => otherSide("a"),
  };
  const next = targets[event.key];
  if (!next) return;
  event.preventDefault();
  (next() ?? (place < 0 ? (lane[0] ?? laneOf("b")[0]) : null))?.focus();
}

/** @param {Element} box @param {string} side @returns {HTMLElement[]} */
const buttons = (box, side) => [...box.querySelectorAll(/** @type {"button"} */ (`button[data-side="${side}"]`))];

/** Maximum number of tokens rendered before and after the first difference. */
const SPAN = { before: 24, after: 128 };

/** @param {{now: Answer}} props */
export function TokenRows({ now }) {
  const { shown, differing, same } = foldedPairs(now.sequences);
  const lanes = (/** @type {SequencePair[]} */ pairs) =>
    pairs.map((pair) => html`<${Pair} key=${keyOf(pair)} pair=${pair} first=${now.first_token} />`);
  const more = t("compare.folded_apart", { n: differing.length });
  const all = t(shown.length ? "compare.folded" : "compare.folded_all", { n: same.length });
  return html`<section class="compare-lanes" aria-label=${t("compare.tokens")}>
    <h3 class="panel-title">${t("compare.tokens")} <${Fidelity} kind="captured" /></h3>
    ${lanes(shown)}
    <${Folded} key="apart" id="compare-apart" text=${more} pairs=${differing} lanes=${lanes} />
    <${Folded} key="same" id="compare-same" text=${all} pairs=${same} lanes=${lanes} />
  </section>`;
}

/** Key of a sequence in both runs. @param {{request_id: string, number: number, member: number}} pair */
export const keyOf = (pair) => `${pair.request_id}/${pair.number}/${pair.member}`;

/**
 * Collapsed lanes, rendered only when opened.
 * @param {{id: string, text: string, pairs: SequencePair[], lanes: (pairs: SequencePair[]) => unknown}} props
 */
function Folded({ id, text, pairs, lanes }) {
  const [open, setOpen] = useState(false);
  if (!pairs.length) return null;
  const onToggle = (/** @type {Event & {currentTarget: HTMLDetailsElement}} */ event) =>
    setOpen(event.currentTarget.open);
  return html`<details class="compare-folded" id=${id} onToggle=${onToggle}>
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
  const numLater = Math.max(...lanes.map((lane) => lane.length)) - to;
  const earliest = difference && first && keyOf(first) === keyOf(pair) ? " earliest" : "";
  const member = pair.member ? html`<span> · ${t("compare.member", { n: pair.member + 1 })}</span>` : null;
  const token = (/** @type {number} */ lane, /** @type {number} */ place, isShared = false) => {
    const [chosen, label] = [lanes[lane][place], labels[lane][place]];
    const side = SIDES[lane];
    return html`<${TokenButton} key=${place} side=${side} token=${chosen} label=${label} isShared=${isShared} />`;
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
      onKeyDown=${moveFocus}
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
      ${numLater > 0 ? html`<span class="compare-more">${t("compare.later", { n: numLater })}</span>` : null}
    </div>
  </div>`;
}

/** @type {(from: number, to: number) => number[]} */
const places = (from, to) => Array.from({ length: Math.max(0, to - from) }, (_, k) => from + k);

/**
 * A sampled token as a button that shows its record. Arrow keys move within a lane.
 * @param {{side: Side, token: Token | undefined, label: string, isShared: boolean}} props
 */
function TokenButton({ side, token, label, isShared }) {
  if (!token) return html`<span class="compare-none" aria-hidden="true">·</span>`;
  const values = { side: side.toUpperCase(), token: label, n: grouped(token.record + 1) };
  const name =
    t(isShared ? "compare.token_both" : "compare.token", values) + (token.chosen ? t("compare.from_outside") : "");
  return html`<button
    class=${`compare-token generated${token.chosen ? " chosen" : ""}`}
    tabindex="-1"
    data-side=${side}
    aria-label=${name}
    title=${name}
    lang=${langOf(label)}
    onClick=${() => showRecord(side, token.record)}
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
