// "Mend a session" exercise: parts of its prompts are moved by dragging or buttons, then the session is run and shown
// with its log.

import { useLayoutEffect, useRef } from "../../../vendor/preact/hooks.js";
import { signal } from "../../../vendor/signals/signals.js";
import { answer, waiting } from "../../control/lesson.js";
import { jumpTo } from "../../control/playback.js";
import { inEffect, MAX_MOVES, moved, nameOf } from "../../core/prompt_order.js";
import { grouped, sentences, t } from "../../i18n/words.js";
import { html } from "../../kit/html.js";
import { checkpoint } from "../../state/lessons.js";
import { own } from "../../state/run.js";
import { draggable, Ghost } from "./drag.js";
import { useScrollIntoView } from "./follow.js";

/** @import {Mended, Move, MendItem, TurnRun} from "../../core/wire.js" */

/** The learner's current moves, and the index of their item. */
const list = signal(/** @type {{item: number, moves: Move[]}} */ ({ item: -1, moves: [] }));

/** @param {TurnRun[]} turns @param {"num_tokens" | "num_hit" | "num_again"} name */
const sum = (turns, name) => turns.reduce((total, turn) => total + turn[name], 0);

/** Text of a move. @param {Move} move */
const moveText = ({ part, before }) => t(before === null ? "lesson.mend.last" : "lesson.mend.before", { part, before });

/** @param {{item: MendItem}} props */
export function PromptOrder({ item }) {
  const isOpen = !item.over && checkpoint.value?.index === item.index;
  const moves = list.value.item === item.index ? list.value.moves : [];
  /** @param {Move[]} newMoves */
  const setMoves = (newMoves) => (list.value = { item: item.index, moves: newMoves });
  const newest = useScrollIntoView(item.given.length, item.over);
  const last = item.given.length - 1;
  return html`<div class="work" role="group" id=${`mend-${item.index}`} data-over=${item.over}
    aria-label=${t("lesson.mend.title")}>
    <h2 class="work-title">${t("lesson.mend.title")}</h2>
    ${item.given.map(
      (attempt, i) =>
        attempt &&
        html`<div key=${i} class="work-result" role="status" ref=${i === last ? newest : null}
          data-news=${i === last} tabindex="-1"><h3>${t(i ? "lesson.mend.second" : "lesson.mend.yours")}</h3>
          <${Result} attempt=${attempt} item=${item} isShown=${i === last && (!item.over || attempt.right)} /></div>`,
    )}
    ${isOpen ? html`<${Board} item=${item} moves=${moves} setMoves=${setMoves} />` : null}
    ${
      item.right && !(item.given[last]?.right && item.given[last].turns.length)
        ? html`<div class="work-result" data-news=${item.given[last] === null} tabindex="-1">
          <h3>${t("lesson.mend.right")}</h3>
          <${Result} attempt=${item.right} item=${item} isShown /></div>`
        : null
    }
  </div>`;
}

/** @typedef {{turn: number, part: string, by: number}} Held `by`: direction of the pressed button, or 0 after a drop */

/**
 * The prompts in their current order, and the moves that led to it. The focus stays on the pressed button, and the new
 * order is announced.
 * @param {{item: MendItem, moves: Move[], setMoves: (moves: Move[]) => void}} props
 */
function Board({ item, moves, setMoves }) {
  const lastRun = item.given.findLast((attempt) => attempt?.turns.length)?.turns ?? item.before;
  const prompts = moved(
    item.before.map(({ lines }) => lines),
    moves,
  );
  const turns = useRef(/** @type {HTMLElement | null} */ (null));
  const lastMove = useRef(/** @type {Held | null} */ (null));
  /** @param {Move} move @param {Held} by */
  const onMove = (move, by) => {
    const newMoves = inEffect([...moves, move]);
    if (move.part === move.before || newMoves.length > MAX_MOVES) return;
    lastMove.current = by;
    setMoves(newMoves);
  };
  useLayoutEffect(() => {
    if (!lastMove.current?.by) return;
    const { turn, part, by } = lastMove.current;
    lastMove.current = { turn, part, by: 0 };
    const element = turns.current?.children[turn].querySelector(`[data-part="${CSS.escape(part)}"]`);
    /** @type {HTMLElement | null | undefined} */ (element?.querySelector(`[data-by="${by}"]`))?.focus();
  }, [moves]);
  const order = lastMove.current && moves.length ? prompts[lastMove.current.turn].map(nameOf) : [];
  return html`<p class="desk-hint">${t("lesson.mend.hint")}</p>
    <p class="visually-hidden" role="status">${
      lastMove.current && order.length
        ? t("lesson.mend.order", { n: lastMove.current.turn + 1, order: order.join(t("join.list")) })
        : ""
    }</p>
    <div class="mend" ref=${turns}>${prompts.map(
      (lines, i) => html`<section key=${i} class="mend-turn">
        <h3>${t("lesson.mend.turn", { n: i + 1 })} <small class="num">${t("lesson.mend.hit", {
          hit: lastRun[i].num_hit,
          n: lastRun[i].num_tokens,
        })}</small></h3>
        <ol data-drop="end">${lines.map(
          (line, at) => html`<${PromptLine} key=${line} turn=${i} lines=${lines} at=${at} onMove=${onMove}
            isMovable=${item.movable.includes(nameOf(line))}
            diverges=${line === lastRun[i].lines[lastRun[i].diverges_at ?? -1]} />`,
        )}</ol></section>`,
    )}</div>
    <${Ghost} kind="mend-part" />
    <${Moves} moves=${moves} setMoves=${setMoves} />
    <div class="work-ends">
      <button class="command primary" id="work-give" disabled=${!moves.length || waiting.value}
        onClick=${() => answer({ moves })}>${t("lesson.mend.run")}</button>
      <button class="quiet" id="work-unsure" disabled=${waiting.value}
        onClick=${() => answer(null)}>${t("lesson.work.show")}</button>
    </div>`;
}

/**
 * A part of a prompt. A movable part is dragged, or moved by one line with its buttons or the arrow keys.
 * @param {{
 *   turn: number, lines: string[], at: number, isMovable: boolean, diverges: boolean,
 *   onMove: (move: Move, by: Held) => void,
 * }} props `diverges`: whether the prompt of the last run diverges here
 */
function PromptLine({ turn, lines, at, isMovable, diverges, onMove }) {
  const part = nameOf(lines[at]);
  const mark = diverges ? html`<i class="mend-mark">${t("lesson.mend.diverges")}</i>` : null;
  const dropData = { "data-drop": "part", "data-at": at, "data-part": part };
  if (!isMovable) return html`<li class="mend-part" ...${dropData}><span>${lines[at]}</span>${mark}</li>`;
  const canGo = (/** @type {number} */ by) => (by < 0 ? at > 0 : at < lines.length - 1);
  /**
   * @param {number} by lines; moving down inserts before the line after the next
   * @param {number} [focusedBy] direction of the focused button
   */
  const moveLine = (by, focusedBy = by) => {
    const next = lines[by < 0 ? at - 1 : at + 2];
    if (canGo(by)) onMove({ part, before: next === undefined ? null : nameOf(next) }, { turn, part, by: focusedBy });
  };
  /** @param {KeyboardEvent} event */
  const onKey = (event) => {
    const by = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    const button = /** @type {Element} */ (event.target).closest("button");
    if (!by || !button) return;
    event.preventDefault();
    moveLine(by, Number(button.dataset.by));
  };
  /** @param {Element | null} under @param {number} y */
  const onDrop = (under, y) => {
    const line = /** @type {HTMLElement | null} */ (under?.closest("[data-drop=part]") ?? null);
    if (!line && !under?.closest("[data-drop=end]")) return;
    const box = line?.getBoundingClientRect();
    const place = box ? Number(line?.dataset.at) + Number(y > box.top + box.height / 2) : Infinity;
    const names = [...(line?.parentElement?.children ?? [])].map(
      (one) => /** @type {HTMLElement} */ (one).dataset.part,
    );
    const before = names.slice(place).find((name) => name !== part) ?? null;
    onMove({ part, before }, { turn, part, by: 0 });
  };
  /** @param {number} by */
  const button = (by) => html`<button class="mend-step" data-by=${by} aria-disabled=${!canGo(by)}
    aria-label=${t(by < 0 ? "lesson.mend.up" : "lesson.mend.down", { part, n: turn + 1 })}
    aria-keyshortcuts="ArrowUp ArrowDown" onClick=${() => moveLine(by)}>${by < 0 ? "▲" : "▼"}</button>`;
  const dragged = draggable(lines[at], onDrop);
  return html`<li class="mend-part" data-movable="true" ...${dropData} ...${dragged} onKeyDown=${onKey}>
    <span>${lines[at]}</span>${mark}<i data-grip aria-hidden="true">⠿</i>${button(-1)}${button(1)}</li>`;
}

/** @param {{moves: Move[], setMoves: (moves: Move[]) => void}} props */
const Moves = ({ moves, setMoves }) =>
  html`<ol class="work-list" aria-label=${t("lesson.mend.moves")}>${moves.map(
    (move, i) => html`<li key=${i}>${moveText(move)} <button class="quiet work-back"
    aria-label=${t("lesson.work.back", { move: moveText(move) })}
    onClick=${() => setMoves(inEffect(moves.toSpliced(i, 1)))}>✕</button></li>`,
  )}</ol>`;

/**
 * Result of a session that was run: the hits of each turn, and the part at which it diverges.
 * @param {{attempt: Mended, item: MendItem, isShown: boolean}} props `isShown`: whether its run is on stage
 */
function Result({ attempt, item: { before, block_size }, isShown }) {
  const { moves, turns, right } = attempt;
  const again = turns.map(({ num_again }) => num_again);
  const saved = sum(turns, "num_hit") - sum(before, "num_hit");
  return html`<ol>${moves.map((move) => html`<li>${moveText(move)}</li>`)}</ol>
    ${
      turns.length
        ? null
        : html`<p>${sentences([
            t(right ? "lesson.mend.would_be_right" : "lesson.mend.would_not"),
            t("lesson.mend.not_run"),
          ])}</p>`
    }
    <ul class="mend-ran">${turns.map((turn, i) => {
      const { lines, num_tokens: n, num_hit: hit, diverges_at: at, record } = turn;
      const isLinked = isShown && record < own.numRecords.value;
      const isIdentical = at === null || at >= lines.length;
      const link = t("lesson.record", { i: record + 1 });
      const why = turn.again.length ? "lesson.mend.again" : "lesson.mend.new";
      return html`<li>
        <b>${t("lesson.mend.turn", { n: i + 1 })}</b>
        <span class="mend-bar" aria-hidden="true"><i style=${{ width: `${(100 * hit) / n}%` }}></i></span>
        <span class="num">${t("lesson.mend.hit", { hit: grouped(hit), n: grouped(n) })}</span>
        ${isLinked ? html`<button class="lesson-link num" onClick=${() => jumpTo(record)}>${link}</button>` : null}
        ${isIdentical ? null : html`<small>${t(why, { part: lines[at], n: turn.again.length })}</small>`}
      </li>`;
    })}</ul>
    ${
      turns.length
        ? html`<p><b>${t(saved < 0 ? "lesson.mend.lost" : "lesson.mend.saved", {
            saved: grouped(Math.abs(saved)),
            hit: grouped(sum(turns, "num_hit")),
            before: grouped(sum(before, "num_hit")),
          })}</b>${t("join.sentences")}${t(right ? "lesson.mend.all_right" : "lesson.mend.more", {
            n: right ? Math.max(...again) : sum(turns, "num_again"),
            size: block_size,
          })}</p>`
        : null
    }`;
}
