// Tokens below the columns as a list with keyboard navigation, and the physical blocks below them.

import { signal } from "../../../vendor/signals/signals.js";
import { RELEASED } from "../../core/groups.js";
import { langOf, t } from "../../i18n/words.js";
import { html } from "../../kit/html.js";
import { hideTip, showTip } from "../../kit/tooltip.js";
import { hovered, pointed, select, selected } from "../../state/store.js";
import {
  describe,
  draftAt,
  draftLabel,
  fontSize,
  KINDS,
  labelAt,
  placeOf,
  sampledAt,
  shownText,
} from "./token_row_columns.js";
import { columnTip, vectorSentence } from "./token_row_tip.js";

/** @import {Signal} from "../../../vendor/signals/signals.js" */
/** @import {View} from "../../state/store.js" */
/** @import {Columns} from "./geometry.js" */
/** @import {Kind} from "./token_row_columns.js" */

const PAGE_STEP = 10; // columns per Page Up or Page Down

/** Row whose vector screen readers get for the focused column, or null. @type {Signal<Kind | null>} */
const spokenRow = signal(null);
/**
 * @typedef {[first: number, last: number]} Span positions; `last` is exclusive
 * @typedef {{now: View, layout: Columns, sub: number | null, focusColumn: (position: number) => void}} Shown
 */

/** @param {Event} event */
const elementOf = (event) => /** @type {Element} */ (event.currentTarget);

/** Focused column, or null. @type {Signal<number | null>} */
const focused = signal(null);

/**
 * Return the column in the tab order: the focused or pinned one if visible, otherwise the newest visible one.
 * @param {Span} span
 */
function tabStop([first, last]) {
  const current = focused.value ?? selected.value?.position;
  return current !== undefined && current !== null && current >= first && current < last ? current : last - 1;
}

/** Visible tokens. `bring(position)` scrolls a column into view and focuses it. @param {Shown & {span: Span}} props */
export function Tokens({ now, layout, span, sub, focusColumn }) {
  const stop = tabStop(span);
  const seq = now.seq.seq_id;
  return range(span).map(
    (position) =>
      html`<${Token} key=${`${seq}/${position}`} ...${{ now, layout, position, sub, focusColumn }}
        stop=${position === stop} />`,
  );
}

/** @param {Shown & {position: number, stop: boolean}} props */
function Token({ now, layout, position, sub, stop, focusColumn }) {
  const label = labelAt(now, position, sub);
  const draft = draftAt(now, position, sub);
  const text = shownText(label);
  const size = fontSize(text, layout.width);
  const isPointed = pointed.value?.position === position;
  const classes = ["token", position >= now.seq.num_prompt_tokens ? "generated" : "prompt"];
  if (now.entry && position >= now.entry.start && position < now.numFilled) classes.push("flight");
  if (position === sampledAt(now) && draft !== "draft") classes.push("sampled");
  if (!placeOf(now, position, sub)) classes.push("unwritten");
  if (isPointed) classes.push("pointed");
  if (label.of) classes.push("fragment");
  if (draft) classes.push(draft, ...(position >= now.labels.length ? ["fallen"] : []));
  const separator = t("join.clauses");
  /** @param {FocusEvent} event */
  const onFocus = (event) => {
    focused.value = position;
    hovered.value = { position };
    showTip(elementOf(event), columnTip(now, position, sub, spokenRow.peek()));
  };
  /** @param {PointerEvent} event */
  const onEnter = (event) => {
    hovered.value = { position };
    showTip(elementOf(event), columnTip(now, position, sub));
  };
  /** @param {KeyboardEvent} event */
  const onKey = (event) => moveByKey(event, { now, position, sub, count: layout.count, focusColumn });
  return html`<button
    class=${classes.join(" ")}
    role="option"
    aria-selected=${selected.value?.position === position}
    aria-posinset=${position + 1}
    aria-setsize=${layout.count}
    aria-label=${describe(now, position, sub).join(separator)}
    aria-description=${
      focused.value === position && spokenRow.value ? vectorSentence(now, spokenRow.value, position, sub) : undefined
    }
    style=${{
      left: `${layout.x(position)}px`,
      width: `${layout.width}px`,
      fontSize: size === null ? undefined : `${size}px`,
    }}
    data-position=${position}
    tabindex=${stop ? 0 : -1}
    onClick=${() => select({ position })}
    onFocus=${onFocus}
    onBlur=${(/** @type {FocusEvent} */ event) => {
      focused.value = null;
      if (!goesToChain(event)) hovered.value = null;
      hideTip();
    }}
    onPointerEnter=${onEnter}
    onPointerLeave=${() => {
      hovered.value = null;
      hideTip();
    }}
    onKeyDown=${onKey}
  >
    <span class="token-text" lang=${langOf(text)}>${size === null ? "" : text}</span>
    ${
      draft === "rejected" && position < now.labels.length
        ? html`<s class="token-draft">${shownText(draftLabel(now, position))}</s>`
        : null
    }
    ${label.of ? html`<span class="token-part">${label.char ? `${label.part}/${label.of}` : "…"}</span>` : null}
  </button>`;
}

/**
 * Move along the columns with left and right. Choose the row for screen readers with up and down.
 * @param {KeyboardEvent} event
 * @param {Omit<Shown, "layout"> & {position: number, count: number}} at
 */
function moveByKey(event, { now, position, sub, count, focusColumn }) {
  const to = {
    ArrowLeft: position - 1,
    ArrowRight: position + 1,
    PageUp: position - PAGE_STEP,
    PageDown: position + PAGE_STEP,
    Home: 0,
    End: count - 1,
  }[event.key];
  const rowStep = { ArrowUp: -1, ArrowDown: 1 }[event.key] ?? 0;
  if (to === undefined && !rowStep) return;
  event.preventDefault();
  event.stopPropagation(); // scrolling may remove this element before the page's own handlers run
  if (!rowStep) return focusColumn(Math.max(0, Math.min(count - 1, to ?? position)));
  /** @type {(Kind | null)[]} */
  const rows = [null, ...KINDS];
  spokenRow.value = rows[(rows.indexOf(spokenRow.value) + rowStep + rows.length) % rows.length];
  showTip(elementOf(event), columnTip(now, position, sub, spokenRow.value));
}

/** Physical blocks of the columns above. @param {{now: View, layout: Columns, span: Span}} props */
export function BlockMarks({ now, layout, span: [first, last] }) {
  const size = now.blockSize;
  const end = Math.min(last, now.numFilled);
  const marks = [];
  for (let logical = Math.floor(first / size); logical * size < end; logical++) {
    const block = now.table[logical];
    if (block === undefined) continue;
    const released = block === RELEASED;
    // only the visible part, since a block may be as long as the sequence
    const from = Math.max(logical * size, first);
    const to = Math.min((logical + 1) * size, now.numFilled, last) - 1;
    const isPointed =
      (!released && pointed.value?.block === block) || Math.floor((pointed.value?.position ?? -1) / size) === logical;
    const style = { left: `${layout.x(from)}px`, width: `${layout.x(to) + layout.width - layout.x(from)}px` };
    marks.push(html`<button
      key=${`b${logical}`}
      class=${isPointed ? "token-row-block pointed" : "token-row-block"}
      style=${style}
      tabindex="-1"
      aria-hidden="true"
      onClick=${() => select(released ? { position: logical * size } : { position: logical * size, block })}
    >
      <span class="token-row-block-name">${released ? "–" : block}</span>
    </button>`);
  }
  return marks;
}

/** @param {Span} span */
function range([first, last]) {
  return Array.from({ length: Math.max(0, last - first) }, (_, i) => first + i);
}

/** Whether the focus moves to the chain, which depends on the hovered column. @param {FocusEvent} event */
const goesToChain = ({ relatedTarget }) => relatedTarget instanceof Element && relatedTarget.closest("#chain") !== null;
