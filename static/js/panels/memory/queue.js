// The complete free queues in order, one per block group: consecutive ids are abbreviated, the head is marked, cached
// blocks show their hash.

import { instanceName } from "../../core/instances.js";
import { groupName, groupTitle, shortKeys } from "../../i18n/groups.js";
import { t } from "../../i18n/words.js";
import { moveFocusInRow } from "../../kit/focus.js";
import { html } from "../../kit/html.js";
import { Term } from "../../kit/term.js";
import { hideTip, showTip } from "../../kit/tooltip.js";
import { hovered, log, select, state } from "../../state/store.js";
import { isCachedNow, queuesNow } from "./pool_scene.js";

const MIN_RUN = 3; // shorter runs are not abbreviated

/**
 * Consecutive ids of one kind, from `first` to `last`, ascending or descending by one.
 * @template K
 * @typedef {{first: number, last: number, count: number, kind: K}} Run
 */

/**
 * Split `ids` into runs in order; each id is in exactly one run.
 * @template K
 * @param {number[]} ids @param {(id: number) => K} kindOf
 */
export function runsOf(ids, kindOf) {
  /** @type {Run<K>[]} */
  const runs = [];
  for (let i = 0; i < ids.length; ) {
    const kind = kindOf(ids[i]);
    const step = ids[i + 1] - ids[i];
    let end = i + 1;
    if (step === 1 || step === -1)
      while (end < ids.length && ids[end] - ids[end - 1] === step && kindOf(ids[end]) === kind) end++;
    const count = end - i >= MIN_RUN ? end - i : 1;
    runs.push({ first: ids[i], last: ids[i + count - 1], count, kind });
    i += count;
  }
  return runs;
}

const MAX_BUTTONS = 240; // runs; a more fragmented queue is shown as text

/**
 * @typedef {import("../../state/store.js").State["block_groups"][number]} Group
 * @typedef {Run<"cached" | "free">} QueueRun
 */

export function Queues() {
  /** @type {(Group | null)[]} */
  const groups = state.value?.block_groups ?? [null];
  const hasSeveral = groups.length > 1;
  const header = log.value?.header;
  const name = (/** @type {number} */ i) =>
    header && instanceName(header, groups[i]?.instance ?? 0)
      ? groupTitle(header, /** @type {Group[]} */ (groups), i)
      : groups[i] && shortKeys(groups[i]);
  return html`<div class=${hasSeveral ? "queues several" : "queues"} id="free-queue">
    ${groups.map(
      (
        group,
        i,
      ) => html`<${Queue} key=${i} at=${i} group=${hasSeveral ? group : null} name=${hasSeveral ? name(i) : null}
      queue=${queuesNow.value[i] ?? []} />`,
    )}
  </div>`;
}

/**
 * The free queue of the pool, or of `group` if there are several groups.
 * @param {{at: number, group: Group | null, name: string | null, queue: number[]}} props
 */
function Queue({ at, group, name, queue }) {
  const now = state.value;
  const runs = now ? runsOf(queue, (id) => (isCachedNow(id) ? "cached" : "free")) : [];
  const text = runs.map(runText).join(", ");
  const label = t("pool.queue_label", { ids: text });
  return html`<div class="queue" role="group" data-group=${at}
    aria-label=${name && group ? `${name}, ${groupName(group)}: ${label}` : label}>
    <span class="queue-name"
      ><${Term} id="free_queue">${t("pool.queue")}<//>${
        group
          ? html` <small
        title=${groupName(group)}>${name}</small>`
          : null
      } <b class="num">${queue.length}</b></span
    >
    <span class="queue-ids num" data-arrows>
      ${
        runs.length > MAX_BUTTONS
          ? html`<span class="queue-text">▸ ${text}</span>`
          : runs.map(
              (run, i) => html`<${RunButton}
        run=${run} head=${i === 0} queue=${queue} />`,
            )
      }
      ${now && queue.length === 0 ? html`<span class="none">${t("pool.queue_empty")}</span>` : null}
    </span>
  </div>`;
}

/** @param {QueueRun} run */
const runText = (run) => (run.count === 1 ? String(run.first) : `${run.first}–${run.last}`);

/** A run of the queue. `head` marks the first one. @param {{run: QueueRun, head: boolean, queue: number[]}} props */
function RunButton({ run, head, queue }) {
  const place = queue.indexOf(run.first) + 1;
  const lines = [
    run.count === 1
      ? t("pool.block", { id: run.first })
      : t("pool.run", { first: run.first, last: run.last, n: run.count }),
    t(run.kind === "cached" ? "pool.run.cached" : "pool.run.free", { place, to: place + run.count - 1 }),
  ];
  /** @param {Event} event */
  const onPoint = (event) => {
    hovered.value = { block: run.first };
    showTip(/** @type {Element} */ (event.currentTarget), lines);
  };
  const onLeave = () => ((hovered.value = null), hideTip());
  return html`<button
    class=${`chip ${run.kind}${head ? " head" : ""}`}
    tabindex=${head ? 0 : -1}
    aria-description=${lines.join("; ")}
    onClick=${() => select({ block: run.first })}
    onPointerEnter=${onPoint}
    onPointerLeave=${onLeave}
    onFocus=${onPoint}
    onBlur=${onLeave}
    onKeyDown=${moveFocusInRow}
  >
    ${head ? "▸" : ""}${runText(run)}${run.kind === "cached" ? html`<sup>#</sup>` : null}
  </button>`;
}
