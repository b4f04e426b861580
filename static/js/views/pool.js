// The physical pool, slot by slot, and the free queue.

import { useEffect, useRef, useState } from "../../vendor/preact/hooks.js";
import { prepare, usePainter } from "../draw/canvas.js";
import { themeVersion } from "../draw/colour.js";
import { motionAt, tick } from "../draw/frame.js";
import { poolLayout } from "../draw/pool.js";
import { t } from "../i18n/index.js";
import { hovered, pointed, record, select, selected, stage, state } from "../model/store.js";
import { labelText, tokenLabels } from "../trace/labels.js";
import { hashText } from "./chain.js";
import { html } from "./html.js";
import { ownersOf, paintPool } from "./pool_paint.js";
import { Fidelity, hideTip, Term, tipAt } from "./words.js";

const MAX_BUTTONS = 512; // larger pools are reached by pointer and through the block tables

export function Pool() {
  const [size, setSize] = useState({ width: 0, height: 0 });
  const outer = useRef(null);
  const now = state.value;
  const layout = now && size.width ? poolLayout(now.blocks.length, now.block_size, size.width, size.height) : null;
  const latest = useRef(null);
  latest.current = layout;
  const ref = usePainter(
    () => [state.value, stage.value, pointed.value, themeVersion.value, motionAt() < 1 && tick.value],
    (box) => {
      const context = prepare(box.querySelector("canvas"), box.clientWidth, Math.max(1, latest.current?.height ?? 1));
      if (latest.current && state.value) paintPool(context, latest.current);
    },
  );
  useEffect(() => {
    const measure = () => setSize({ width: outer.current.clientWidth, height: outer.current.clientHeight });
    const sizes = new ResizeObserver(measure);
    sizes.observe(outer.current);
    measure();
    return () => sizes.disconnect();
  }, []);
  return html`<section class="pool">
    <h3 class="panel-title"><${Term} id="block">${t("pool.title")}<//> <${Fidelity} kind="captured" /></h3>
    <div class="pool-scroll" ref=${outer}>
      <div
        class="pool-window"
        ref=${ref}
        style=${{ height: `${layout?.height ?? 0}px` }}
        role="group"
        data-arrows
        aria-label=${now ? t("pool.label", { n: now.blocks.length, size: now.block_size }) : t("pool.title")}
        onPointerMove=${(event) => hover(event, layout)}
        onPointerLeave=${() => ((hovered.value = null), hideTip())}
        onClick=${(event) => pick(event, layout)}
      >
        <canvas aria-hidden="true"></canvas>
        ${layout && now.blocks.length <= MAX_BUTTONS
          ? now.blocks.map((block) => html`<${BlockButton} key=${block.block_id} block=${block} layout=${layout} />`)
          : null}
      </div>
    </div>
    <${Legend} />
    <${Queue} />
  </section>`;
}

/** Invisible, focusable, named: the pool for keyboards and screen readers. */
function BlockButton({ block, layout }) {
  const { x, y } = layout.blockAt(block.block_id);
  const target = { block: block.block_id, ...targetOf(block.block_id, 0) };
  return html`<button
    class="block-button"
    data-block=${block.block_id}
    aria-label=${describeBlock(block).join("; ")}
    aria-pressed=${selected.value?.block === block.block_id}
    tabindex=${block.block_id === (selected.value?.block ?? 0) ? 0 : -1}
    style=${{ left: `${x - 3}px`, top: `${y - 2}px`, width: `${layout.block.width + 6}px`, height: `${layout.block.height + 4}px` }}
    onFocus=${() => (hovered.value = target)}
    onBlur=${() => (hovered.value = null)}
    onKeyDown=${(event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        select(target);
      } else moveFocus(event, layout);
    }}
  ></button>`;
}

function moveFocus(event, layout) {
  const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -layout.columns, ArrowDown: layout.columns }[event.key];
  if (!step) return;
  event.preventDefault();
  const next = Number(event.currentTarget.dataset.block) + step;
  event.currentTarget.parentElement.querySelector(`[data-block="${next}"]`)?.focus();
}

/** What is pointed at when a slot is: the shown sequence's position if its table has the block, and the block. */
function targetOf(block, offset) {
  const now = stage.value;
  const logical = now ? now.table.indexOf(block) : -1;
  if (logical < 0) return { block, offset };
  const position = logical * now.blockSize + offset;
  return position < now.numFilled ? { position, block } : { block, offset };
}

function hover(event, layout) {
  const hit = hitOf(event, layout);
  if (!hit) return (hovered.value = null), hideTip();
  hovered.value = targetOf(hit.block, hit.offset ?? 0);
  const block = state.value.blocks[hit.block];
  const lines = describeBlock(block);
  if (hit.offset !== null) lines.push(describeSlot(block, hit.offset));
  tipAt(event.clientX, event.clientY, lines);
}

function pick(event, layout) {
  const hit = hitOf(event, layout);
  if (hit) select(targetOf(hit.block, hit.offset ?? 0));
}

function hitOf(event, layout) {
  if (!layout) return null;
  const box = event.currentTarget.getBoundingClientRect();
  return layout.hit(event.clientX - box.left, event.clientY - box.top);
}

/** A block in words, one sentence each. */
function describeBlock(block) {
  const now = state.value;
  const place = now.free_queue.indexOf(block.block_id) + 1;
  const owners = ownersOf(now).get(block.block_id) ?? [];
  const lines = [t("pool.block", { id: block.block_id })];
  if (block.ref_count > 0)
    lines.push(
      t("pool.block.held", {
        owners: owners.map((id) => t("sequence.name", { id })).join(", "),
        n: block.ref_count,
        filled: block.token_ids.length,
        size: now.block_size,
      }),
    );
  else lines.push(t(block.block_hash ? "pool.block.cached" : "pool.block.free", { place }));
  if (block.block_hash) lines.push(t("pool.block.hash", { hash: hashText(block.block_hash) }));
  return lines;
}

function describeSlot(block, offset) {
  const slot = block.block_id * state.value.block_size + offset;
  const label = slotLabel(block, offset);
  return label === null ? t("pool.slot_empty", { slot }) : t("pool.slot", { slot, token: labelText(label) });
}

/** The label of a slot's token, through a sequence that wrote or shares it; null when the slot is empty. */
function slotLabel(block, offset) {
  if (offset >= block.token_ids.length) return null;
  const origin = stage.value?.log.slotOrigin(block.block_id * state.value.block_size + offset, state.value.index);
  const seq = origin && state.value.sequences.get(origin.seq_id);
  return seq ? tokenLabels(seq.token_bytes)[origin.position] : null;
}

function Legend() {
  return html`<ul class="legend">
    <li><i class="key held"></i>${t("pool.held")}</li>
    <li><i class="key waste"></i><${Term} id="waste">${t("pool.waste")}<//></li>
    <li><i class="key cached">#</i><${Term} id="block_hash">${t("pool.cached")}<//></li>
    <li><i class="key free"></i>${t("pool.free")}</li>
  </ul>`;
}

/** The head of the free queue, in order; blocks just allocated leave it. */
function Queue() {
  const now = state.value;
  const queue = now?.free_queue ?? [];
  const shown = queue.slice(0, 12);
  const taken = motionAt() < 1 ? (record.value?.ops ?? []).filter((op) => op.type === "allocate").map((op) => op.block_id) : [];
  return html`<div class="queue" aria-label=${t("pool.queue_label", { ids: shown.join(", ") })} role="group">
    <span class="queue-name"><${Term} id="free_queue">${t("pool.queue")}<//></span>
    <span class="queue-ids num">
      ${taken.slice(0, 6).map((id) => html`<span class="chip leaving" key=${`${now.index}/${id}`} aria-hidden="true">${id}</span>`)}
      ${shown.map(
        (id) => html`<button class=${now.blocks[id].block_hash ? "chip cached" : "chip"} tabindex="-1" onClick=${() => select({ block: id, offset: 0 })}>
          ${id}${now.blocks[id].block_hash ? html`<sup>#</sup>` : null}
        </button>`,
      )}
      ${queue.length > shown.length ? html`<span class="more">+${queue.length - shown.length}</span>` : null}
    </span>
  </div>`;
}
