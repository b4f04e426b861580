// The prefix cache at the drawn record: cached and shared blocks, and lookups.

import { useLayoutEffect, useMemo } from "../../../vendor/preact/hooks.js";
import { signal } from "../../../vendor/signals/signals.js";
import { branchesOf, rowsOf } from "../../core/prefix_branches.js";
import { grouped, t } from "../../i18n/words.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { Select } from "../../kit/inputs.js";
import { useLongList } from "../../kit/long_list.js";
import { useBox } from "../../kit/measure.js";
import { Term } from "../../kit/term.js";
import { hideTip } from "../../kit/tooltip.js";
import { hovered, log, select, state } from "../../state/store.js";
import { Answer, Ask, answer, chosenInstance, shownInstance, tree } from "./ask.js";
import { TreeRow } from "./row.js";
import { isPrivate } from "./row_facts.js";

/** @import {Row} from "../../core/prefix_branches.js" */

export function Panel() {
  const [now, cache, at] = [log.value, tree.value, state.value];
  if (!now || !cache || !at) return html`<p class="hint">${t("prefix.empty", { size: "B" })}</p>`;
  if (now.header.engine.enable_prefix_caching === false && !cache.byHash.size)
    return html`<p class="hint">${t("prefix.off")}</p>`;
  return html`<div class="prefix" id="prefix">
    <header class="prefix-head">
      <h3 class="panel-title"><${Term} id="prefix_cache">${t("prefix.title")}<//> <${Fidelity} kind="captured" /></h3>
      <span class="hint num">${t("prefix.sum", {
        held: grouped(cache.held),
        reusable: grouped(cache.reusable),
        n: cache.held + cache.reusable,
      })}</span>
      <${InstancePick} instances=${now.header.instances ?? []} />
      ${isPrivate() ? null : html`<${Ask} />`}
    </header>
    ${isPrivate() ? html`<p class="hint">${t("prefix.private")}</p>` : html`<${Answer} />`}
    ${cache.byHash.size ? html`<${Tree} />` : html`<p class="hint">${t("prefix.empty", { size: at.block_size })}</p>`}
  </div>`;
}

/**
 * Choice of the instance whose prefix cache is shown.
 * @param {{instances: import("../../core/trace.js").InstanceFacts[]}} props
 */
function InstancePick({ instances }) {
  if (instances.length < 2) return null;
  return html`<${Select} id="prefix-instance" aria-label=${t("prefix.instance")} title=${t("prefix.instance")}
    value=${shownInstance.value} choices=${instances.map(({ name }, at) => [at, name])}
    commit=${(/** @type {string} */ at) => (chosenInstance.value = Number(at))} />`;
}

const ROW_HEIGHT = 26; // px
const TOUCH_ROW_HEIGHT = 48; // px; two lines
const NARROW = 560; // px
const MEDIUM = 800; // px; a narrower tree shows the text instead of the block ids

/** Collapsed branches, and branches shown block by block. */
const closed = signal(/** @type {ReadonlySet<string>} */ (new Set()));
const opened = signal(/** @type {ReadonlySet<string>} */ (new Set()));

/** @param {typeof closed} which @param {string} id @param {boolean} isIn */
function setMember(which, id, isIn) {
  const next = new Set(which.value);
  if (isIn) next.add(id);
  else next.delete(id);
  which.value = next;
}

/** Expand or collapse a row. @param {Row} row @param {boolean} open */
const fold = ({ id, branch }, open) =>
  branch.children.length ? setMember(closed, id, !open) : setMember(opened, id, open);

/** Expand a branch into its blocks; pin the block of a single-block row. @param {Row} row */
function activate({ id, nodes }) {
  const [{ blocks }] = nodes;
  if (nodes.length > 1) setMember(opened, id, !opened.peek().has(id));
  else if (blocks.length) select({ block: blocks[0].block_id });
}

function Tree() {
  const [box, size] = useBox();
  const [cache, hit, now] = [tree.value, answer.value, state.value];
  const hitPath = useMemo(() => new Set(hit?.path.map((node) => node.hash)), [hit]);
  const branches = useMemo(() => branchesOf(cache?.roots ?? []), [cache]);
  const rows = useMemo(() => {
    const collapsed = new Set([...closed.value].filter((id) => !hitPath.has(id))); // the path of a hit remains visible
    return rowsOf(branches, collapsed, opened.value);
  }, [branches, closed.value, opened.value, hitPath]);
  const treeWidth = size.width || innerWidth;
  const high = treeWidth < NARROW ? TOUCH_ROW_HEIGHT : ROW_HEIGHT;
  const list = useLongList({ box, height: size.height, count: rows.length, high });
  const hits = (/** @type {Row} */ { nodes }) => nodes.reduce((sum, { hash }) => sum + Number(hitPath.has(hash)), 0);
  const end = rows.findLastIndex((row) => hits(row) > 0);
  useLayoutEffect(() => {
    const scroller = box.current;
    if (!scroller || end < 0) return;
    const [top, bottom] = [scroller.scrollTop, scroller.scrollTop + scroller.clientHeight];
    if (end * high < top || (end + 1) * high > bottom) scroller.scrollTop = end * high - scroller.clientHeight / 2;
    list.scrolled();
  }, [hitPath]);

  /** @param {KeyboardEvent} event */
  const onKey = (event) => {
    const row = rows[list.stop];
    /** @type {Record<string, () => void>} */
    const actions = {
      Enter: () => activate(row),
      " ": () => activate(row),
      ArrowRight: () => (row.open === false ? fold(row, true) : row.open ? list.goTo(list.stop + 1) : undefined),
      ArrowLeft: () => (row.open ? fold(row, false) : row.parent >= 0 ? list.goTo(row.parent) : undefined),
    };
    if (!row || !(event.key in actions)) return list.move(event);
    event.preventDefault();
    event.stopPropagation();
    actions[event.key]();
  };
  const layout = treeWidth < NARROW ? "narrow" : treeWidth < MEDIUM ? "medium" : "wide";
  return html`<div class="prefix-tree num" data-size=${layout} data-asked=${hit !== null}>
    <div class="prefix-columns" aria-hidden="true">${
      /** @type {const} */ (["text", "blocks", "tokens", "held_by", "hits", "last_use"]).map(
        (name) => html`<span key=${name} data-column=${name}>${t(`prefix.${name}`)}</span>`,
      )
    }</div>
    <div class="prefix-scroll" ref=${box} onScroll=${list.scrolled} onPointerLeave=${onLeave}>
      <div role="tree" aria-label=${t("prefix.label")} id="prefix-tree" data-arrows onKeyDown=${onKey}
        style=${{ height: `${rows.length * high}px` }}>
        ${rows.slice(list.first, list.last).map(
          (
            row,
            i,
          ) => html`<${TreeRow} key=${row.id} ...${{ row, high, state: now, fold, activate }} at=${list.first + i}
            hits=${hits(row)} isEnd=${list.first + i === end} hitPath=${hitPath}
            focusable=${list.first + i === list.stop} />`,
        )}
      </div>
    </div>
  </div>`;
}

function onLeave() {
  hovered.value = null;
  hideTip();
}
