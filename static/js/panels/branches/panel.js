// The prefix cache as its largest branches: first tokens, length, number of continuations and last use. For runs too
// long to load, and for monitored servers.

import { useState } from "../../../vendor/preact/hooks.js";
import { jumpTo } from "../../control/playback.js";
import { grouped, langOf, t } from "../../i18n/words.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";

/** @import {Branch} from "../../core/branch_rows.js" */

/** @typedef {import("../../core/branch_rows.js").Branches} Found */

const EXPANDED_LEVELS = 2; // levels expanded initially
const MAX_INDENT = 8; // maximum indented level

/**
 * Table of branches. `observed` omits the block holders, which monitored servers do not report.
 * @param {{found: Found, observed: boolean}} props
 */
export function Panel({ found, observed }) {
  const [toggled, setToggled] = useState(/** @type {ReadonlySet<Branch["id"]>} */ (new Set())); // toggled branches
  const { branches, num_more: numMore, unnamed } = found;
  if (!branches.length) return html`<p class="hint">${t("branches.none")}</p>`;
  const isOpen = (/** @type {Branch} */ one) => one.level < EXPANDED_LEVELS !== toggled.has(one.id);
  /** @type {boolean[]} whether each branch is visible */
  const isVisible = [];
  for (const [i, { parent }] of branches.entries())
    isVisible[i] = parent < 0 || (isVisible[parent] && isOpen(branches[parent]));
  const forks = new Set(branches.map(({ parent }) => parent));
  const toggle = (/** @type {Branch["id"]} */ id) => {
    const next = new Set(toggled);
    if (!next.delete(id)) next.add(id);
    setToggled(next);
  };
  const columns = ["blocks", "tokens", "all_tokens", ...(observed ? [] : ["held"]), "used_in"];
  return html`<div class="branches" tabindex="0" role="region" aria-label=${t("branches.title")}>
    <p class="hint">${t("branches.sum", {
      blocks: grouped(found.blocks),
      n: found.blocks,
      tokens: grouped(found.tokens),
    })}
      ${unnamed ? ` ${t("branches.unnamed", { n: grouped(unnamed) })}` : null} <${Fidelity} kind="captured" /></p>
    <table class="num">
      <thead><tr><th scope="col">${t("branches.beginning")}</th>${columns.map(
        (name) => html`<th scope="col" key=${name} title=${t(`branches.${name}.why`)}>${t(`branches.${name}`)}</th>`,
      )}</tr></thead>
      <tbody>${branches.map((one, i) =>
        isVisible[i]
          ? html`<${Row} key=${one.id} one=${one} columns=${columns} open=${forks.has(i) ? isOpen(one) : null}
              toggle=${toggle} />`
          : null,
      )}</tbody>
    </table>
    ${numMore ? html`<p class="hint">${t("branches.more", { n: grouped(numMore), count: numMore })}</p>` : null}
  </div>`;
}

/** @param {{one: Branch, columns: string[], open: boolean | null, toggle: (id: Branch["id"]) => void}} props */
function Row({ one, columns, open, toggle }) {
  const text = one.text || (one.token_ids.length ? `${one.token_ids.join(" ")} …` : t("branches.unsaid"));
  const indent = Math.min(one.level - 1, MAX_INDENT);
  return html`<tr data-standing=${one.standing}>
    <th scope="row" style=${{ paddingInlineStart: `${14 * indent}px` }}>
      ${
        open === null
          ? html`<i class="branches-fold"></i>`
          : html`<button class="branches-fold" aria-expanded=${open} aria-label=${t(
              open ? "branches.shut" : "branches.open",
            )} onClick=${() => toggle(one.id)}>${open ? "▾" : "▸"}</button>`
      }${one.level > MAX_INDENT + 1 ? html`<small>${one.level} </small>` : null}${
        one.parent < 0 && !one.begins
          ? html`<span class="branches-unknown" title=${t("branches.unknown.why")}>${t("branches.unknown")} </span>`
          : null
      }<span class=${one.text ? "" : "branches-ids"} lang=${one.text ? langOf(one.text) : undefined}>${text}</span>${
        one.standing === "gone" ? html` <small>${t("branches.gone")}</small>` : null
      }${one.num_more ? html` <small>${t("branches.more_below", { n: grouped(one.num_more) })}</small>` : null}</th>
    ${columns.map((name) => html`<td key=${name}>${figureOf(one, name)}</td>`)}
  </tr>`;
}

/** @param {Branch} one @param {string} name */
function figureOf(one, name) {
  const value = /** @type {number} */ (one[/** @type {keyof Branch} */ (name)]);
  if (name === "used_in")
    return value < 0
      ? "–"
      : html`<button class="branches-go" title=${t("branches.go", { n: grouped(value + 1) })}
          onClick=${() => jumpTo(value)}>${grouped(value)}</button>`;
  return name === "held" && !value ? "–" : grouped(value);
}
