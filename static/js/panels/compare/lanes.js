// The tokens of both runs, request by request: what both chose once, then each one's own future, place by place.

import { useState } from "../../../vendor/preact/hooks.js";
import { html } from "../../kit/html.js";
import { Fidelity, Swatch } from "../../kit/parts.js";
import { foldedPairs, lanesOf } from "../../runs/comparison.js";
import { grouped, langOf, t } from "../../tell/words.js";
import { look } from "./model.js";

const MOST = 128; // places kept in the document behind the first difference
const BEFORE = 24; // and of what is the same before it

export function Lanes({ now }) {
  const { shown, apart, same } = foldedPairs(now);
  const lanes = (pairs) =>
    pairs.map(
      (pair) =>
        html`<${Pair} key=${`${pair.request_id}/${pair.number}/${pair.member}`} pair=${pair} first=${now.first_token} />`,
    );
  return html`<section class="compare-lanes" aria-label=${t("compare.tokens")}>
    <h3 class="panel-title">${t("compare.tokens")} <${Fidelity} kind="captured" /></h3>
    ${lanes(shown)}
    ${apart.length ? html`<${Folded} key="apart" id="compare-apart" text=${t("compare.folded_apart", { n: apart.length })} lanes=${() => lanes(apart)} />` : null}
    ${same.length ? html`<${Folded} key="same" id="compare-same" text=${t(shown.length ? "compare.folded" : "compare.folded_all", { n: same.length })} lanes=${() => lanes(same)} />` : null}
  </section>`;
}

/** Lanes behind one line; they are made when it is opened. */
function Folded({ id, text, lanes }) {
  const [open, setOpen] = useState(false);
  return html`<details class="compare-folded" id=${id} onToggle=${(event) => setOpen(event.currentTarget.open)}>
    <summary>${text}</summary>
    ${open ? lanes() : null}
  </details>`;
}

function Pair({ pair, first }) {
  const lanes = lanesOf(pair);
  const id = (pair.a ?? pair.b).seq_id;
  const places = Math.min(MOST, Math.max(lanes.a.length, lanes.b.length));
  const earliest =
    first &&
    pair.difference &&
    first.request_id === pair.request_id &&
    first.number === pair.number &&
    first.member === pair.member;
  const kept = lanes.same.slice(-BEFORE);
  return html`<div class="compare-pair" data-request=${pair.request_id} data-equal=${pair.equal_tokens}>
    <p class="compare-request"><${Swatch} id=${id} /><b>${pair.request_id}</b>${pair.member ? html`<span> · ${t("compare.member", { n: pair.member + 1 })}</span>` : null} <span class="compare-equal num">${verdict(pair)}</span></p>
    <div class="compare-tokens" role="group" tabindex="0" data-arrows aria-label=${t("compare.lanes_of", { request: pair.request_id })} onKeyDown=${walk}>
      <div class="compare-names" aria-hidden="true"><span class="a">A</span><span class="b">B</span></div>
      ${
        kept.length
          ? html`<div class="compare-same" lang=${langOf(kept.map((token) => token.label).join(""))}>
            ${lanes.same.length > kept.length ? html`<span class="compare-more">${t("compare.earlier", { n: lanes.same.length - kept.length })}</span>` : null}
            ${kept.map((token) => html`<${Token} key=${token.place} side="a" token=${token} both=${true} />`)}
          </div>`
          : null
      }
      ${Array.from({ length: places }, (_, k) => {
        const [a, b] = [lanes.a[k], lanes.b[k]];
        const differs = lanes.differs && a?.token_id !== b?.token_id;
        const mark =
          k === 0 && lanes.differs
            ? earliest
              ? "compare-place first earliest"
              : "compare-place first"
            : "compare-place";
        return html`<div class=${differs ? `${mark} differs` : mark} key=${k}><${Token} side="a" token=${a} /><${Token} side="b" token=${b} /></div>`;
      })}
      ${Math.max(lanes.a.length, lanes.b.length) > places ? html`<span class="compare-more">${t("compare.later", { n: Math.max(lanes.a.length, lanes.b.length) - places })}</span>` : null}
    </div>
  </div>`;
}

/** A chosen token: a button to the record that chose it. Those of a lane are reached with the arrow keys. */
function Token({ side, token, both = false }) {
  if (!token) return html`<span class="compare-none" aria-hidden="true">·</span>`;
  const name = t(both ? "compare.token_both" : "compare.token", {
    side: side.toUpperCase(),
    token: token.label,
    n: grouped(token.record + 1),
  });
  return html`<button class=${`compare-token generated${token.chosen ? " chosen" : ""}`} tabindex="-1" data-side=${side} aria-label=${name + (token.chosen ? t("compare.from_outside") : "")} title=${name + (token.chosen ? t("compare.from_outside") : "")} lang=${langOf(token.label)} onClick=${() => look(side, token.record)}>
    ${token.label}
  </button>`;
}

/** Arrow keys go along a lane and between the two; Home and End to its ends. */
function walk(event) {
  const box = event.currentTarget;
  const of = (side) => [...box.querySelectorAll(`button[data-side="${side}"]`)];
  const at = document.activeElement.closest?.(".compare-token");
  const side = at?.dataset.side ?? "a";
  const lane = of(side);
  const place = lane.indexOf(at);
  const next = {
    ArrowRight: () => lane[place + 1],
    ArrowLeft: () => lane[place - 1],
    Home: () => lane[0],
    End: () => lane.at(-1),
    ArrowDown: () => at?.closest(".compare-place")?.querySelector('button[data-side="b"]'),
    ArrowUp: () => at?.closest(".compare-place")?.querySelector('button[data-side="a"]'),
  }[event.key];
  if (!next) return;
  event.preventDefault();
  (next() ?? (place < 0 ? (lane[0] ?? of("b")[0]) : null))?.focus();
}

function verdict(pair) {
  if (!pair.a || !pair.b) return t(pair.a ? "compare.only_a" : "compare.only_b");
  if (!pair.same_prompt) return t("compare.other_prompt");
  if (pair.difference) return t("compare.parts", { n: grouped(pair.equal_tokens) });
  const unequal = pair.a.tokens.length !== pair.b.tokens.length;
  return t(unequal ? "compare.as_far" : "compare.all_same", { n: grouped(pair.equal_tokens) });
}
