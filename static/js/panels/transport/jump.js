// Navigation dialog: to a record or step by number, or to the next or previous event of a kind.

import { useLayoutEffect, useRef } from "../../../vendor/preact/hooks.js";
import { jumpOpen } from "../../control/keyboard.js";
import { eventFrom, eventKind, jumpTo, jumpToEvent, jumpToStep, play, recordsOf } from "../../control/playback.js";
import { KINDS } from "../../core/events.js";
import { grouped, t } from "../../i18n/words.js";
import { useReturnedFocus } from "../../kit/focus.js";
import { html } from "../../kit/html.js";
import { Icon } from "../../kit/icon.js";
import { Typed } from "../../kit/inputs.js";
import { log, numRecords, shownSeq, toast, viewIndex } from "../../state/store.js";
import { SIGNS } from "./scrubber.js";

/** Dialog that takes the focus when it opens, restores it when it closes, and closes on clicks outside. */
export function Jump() {
  const panel = useRef(/** @type {HTMLElement | null} */ (null));
  useReturnedFocus(true);
  useLayoutEffect(() => {
    const field = panel.current?.querySelector("input");
    if (!field) return undefined;
    if (!matchMedia("(pointer: coarse)").matches) field.focus(); // an on-screen keyboard would cover the list
    field.select();
    /** @param {PointerEvent} event */
    const onOutside = ({ target }) => {
      if (!(/** @type {Element} */ (target).closest("#jump, #position"))) jumpOpen.value = false;
    };
    document.addEventListener("pointerdown", onOutside);
    return () => document.removeEventListener("pointerdown", onOutside);
  }, []);
  const steps = log.value?.records.at(-1)?.step ?? 0;
  return html`<div class="jump" id="jump" role="dialog" aria-label=${t("jump.title")} ref=${panel}>
    <div class="jump-numbers">
      <${NumberField} id="jump-record" label=${t("jump.record")} count=${numRecords.value} first=${viewIndex.value + 1}
        go=${goToRecord} />
      <${NumberField} id="jump-step" label=${t("jump.step")} count=${steps}
        first=${log.value?.records[viewIndex.value]?.step ?? ""} go=${goToStep} />
    </div>
    <p class="jump-head"><span>${t("jump.events")}</span><span><kbd>⇧ N</kbd><kbd>N</kbd></span></p>
    <ul class="jump-list" data-arrows onKeyDown=${onListKey}>
      <${Event} kind="any" label=${t("jump.any")} />
      ${KINDS.map((kind) => html`<${Event} key=${kind} kind=${kind} label=${t(`jump.kind.${kind}`)} />`)}
      ${
        shownSeq.value === null
          ? null
          : html`<${Event} kind="token"
        label=${t("jump.kind.token", { name: t("sequence.name", { id: shownSeq.value }) })} />`
      }
    </ul>
    <button class="quiet jump-back" id="btn-play-back" disabled=${viewIndex.value < 0} onClick=${playBack}><${Icon}
      name="back" /> ${t("jump.play_back")} <kbd>J</kbd></button>
  </div>`;
}

/** @param {number} n */
const goToRecord = (n) => jumpTo(n - 1);

function playBack() {
  jumpOpen.value = false;
  play(-1);
}

/** @param {number} step */
function goToStep(step) {
  if (!jumpToStep(step)) toast(t("jump.no_step", { n: step }));
}

/** @param {{id: string, label: string, count: number, first: number | "", go: (n: number) => void}} props */
function NumberField({ id, label, count, first, go }) {
  /** @param {SubmitEvent} event */
  const submit = (event) => {
    event.preventDefault();
    const value = /** @type {HTMLElement} */ (event.currentTarget).querySelector("input")?.valueAsNumber ?? Number.NaN;
    if (!Number.isFinite(value)) return;
    jumpOpen.value = false;
    go(Math.max(0, Math.min(Math.round(value), count)));
  };
  return html`<form class="jump-number" onSubmit=${submit}>
    <label for=${id}>${label}</label>
    <${Typed} class="num" id=${id} type="number" inputmode="numeric" min="0" max=${count} step="1" value=${first} />
    <span class="num">/ ${grouped(count)}</span>
  </form>`;
}

/**
 * A kind of event: its sign, the number of its records, and buttons to the previous and next record.
 * @param {{kind: string, label: string}} props
 */
function Event({ kind, label }) {
  const count = kind === "any" ? null : recordsOf(kind).length;
  const isChosen = eventKind.value === kind;
  /** @param {1 | -1} direction */
  const jumpButton = (direction) => {
    const to = eventFrom(viewIndex.value, direction, kind);
    const text = t(direction < 0 ? "jump.previous" : "jump.next", { kind: label });
    const go = () => {
      eventKind.value = kind;
      jumpToEvent(direction, kind);
    };
    return html`<button class="tool small" data-way=${direction} aria-label=${text} title=${text}
      disabled=${to === null} onClick=${go}>
      <${Icon} name=${direction < 0 ? "back" : "forward"} />
    </button>`;
  };
  return html`<li class="jump-event" data-kind=${kind} data-none=${count === 0}>
    <button class="jump-kind" aria-pressed=${isChosen} onClick=${() => (eventKind.value = kind)}>
      <${Sign} kind=${kind} /><span>${label}</span><span class="num">${count === null ? "" : grouped(count)}</span>
    </button>
    ${jumpButton(-1)} ${jumpButton(1)}
  </li>`;
}

/** @param {{kind: string}} props */
function Sign({ kind }) {
  const sign = SIGNS[kind];
  if (!sign) return html`<svg class="sign" viewBox="-6 -6 12 12" aria-hidden="true"></svg>`;
  return html`<svg class=${sign.filled ? `sign filled ink-${sign.colour}` : `sign ink-${sign.colour}`}
    viewBox="-6 -6 12 12" aria-hidden="true"><path d=${sign.path} /></svg>`;
}

/**
 * Move between kinds with up and down. Jump to the previous or next event of the focused kind with left and right.
 * @param {KeyboardEvent} event
 */
function onListKey(event) {
  const row = /** @type {Element} */ (event.target).closest("li");
  const by = { ArrowUp: -1, ArrowDown: 1 }[event.key] ?? 0;
  const direction = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!row || (!by && !direction)) return;
  event.preventDefault();
  if (direction) {
    /** @type {HTMLElement | null} */ (row.querySelector(`[data-way="${direction}"]`))?.click();
    return;
  }
  const rows = /** @type {HTMLElement[]} */ ([.../** @type {Element} */ (event.currentTarget).children]);
  const next = rows[(rows.indexOf(row) + by + rows.length) % rows.length];
  /** @type {HTMLElement | null} */ (next.querySelector(".jump-kind"))?.focus();
  eventKind.value = next.dataset.kind ?? "any";
}
