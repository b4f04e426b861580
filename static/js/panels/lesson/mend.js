// Mend a session: move parts of its prompts, by dragging or by buttons; then it is run, and shown as its log has it.

import { signal } from "../../../vendor/signals/signals.js";
import { answer, waiting } from "../../control/lesson.js";
import { jumpTo } from "../../control/playback.js";
import { moved, nameOf } from "../../core/mending.js";
import { html } from "../../kit/html.js";
import { barrier } from "../../state/lessons.js";
import { own } from "../../state/run.js";
import { grouped, t } from "../../tell/words.js";
import { draggable, Ghost } from "./drag.js";
import { useNews } from "./follow.js";

/**
 * @typedef {import("../../state/lessons.js").ToldMend} ToldMend
 * @typedef {import("../../core/wire.js").Mended} Mended
 * @typedef {import("../../core/wire.js").Move} Move
 * @typedef {import("../../core/wire.js").TurnRun} TurnRun
 */

/** The moves that are being made, and the session that they are for. */
const list = signal(/** @type {{item: number, moves: Move[]}} */ ({ item: -1, moves: [] }));

/** @param {TurnRun[]} turns @param {"num_tokens" | "num_hit"} name */
const sum = (turns, name) => turns.reduce((total, turn) => total + turn[name], 0);

/** A move in words. @param {Move} move */
const moveText = ({ part, before }) => t(before === null ? "lesson.mend.last" : "lesson.mend.before", { part, before });

/** @param {{item: ToldMend}} props */
export function Mend({ item }) {
  const isOpen = !item.over && barrier.value?.index === item.index;
  const moves = list.value.item === item.index ? list.value.moves : [];
  /** @param {Move[]} wanted */
  const set = (wanted) => (list.value = { item: item.index, moves: wanted });
  const news = useNews(item.given.length, item.over);
  const last = item.given.length - 1;
  return html`<div class="work" role="group" id=${`mend-${item.index}`} data-over=${item.over}
    aria-label=${t("lesson.mend.title")}>
    <h2 class="work-title">${t("lesson.mend.title")}</h2>
    ${item.given.map(
      (told, i) =>
        told &&
        html`<div key=${i} class="work-told" role="status" ref=${i === last ? news : null}
          data-news=${i === last} tabindex="-1"><h3>${t(i ? "lesson.mend.second" : "lesson.mend.yours")}</h3>
          <${Ran} told=${told} before=${item.before} isShown=${i === last && (!item.over || told.right)} /></div>`,
    )}
    ${isOpen ? html`<${Board} item=${item} moves=${moves} set=${set} />` : null}
    ${
      item.right && !item.given[last]?.right
        ? html`<div class="work-told" data-news=${item.given[last] === null}><h3>${t("lesson.mend.right")}</h3>
          <${Ran} told=${item.right} before=${item.before} isShown /></div>`
        : null
    }
  </div>`;
}

/**
 * The prompts as they are ordered now, and the moves that made them so.
 *
 * @param {{item: ToldMend, moves: Move[], set: (moves: Move[]) => void}} props
 */
function Board({ item, moves, set }) {
  const ran = item.given.findLast((told) => told?.turns.length)?.turns ?? item.before;
  const prompts = moved(
    item.before.map(({ lines }) => lines),
    moves,
  );
  /** @param {Move} move */
  const onMove = (move) => {
    if (move.part !== move.before) set([...moves.slice(0, moves.at(-1)?.part === move.part ? -1 : undefined), move]);
  };
  return html`<p class="desk-hint">${t("lesson.mend.hint")}</p>
    <div class="mend">${prompts.map(
      (lines, i) => html`<section key=${i} class="mend-turn">
        <h3>${t("lesson.mend.turn", { n: i + 1 })} <small class="num">${t("lesson.mend.hit", {
          hit: ran[i].num_hit,
          n: ran[i].num_tokens,
        })}</small></h3>
        <ol data-drop="end">${lines.map(
          (line, at) => html`<${Part} key=${line} lines=${lines} at=${at} onMove=${onMove}
            isMovable=${item.movable.includes(nameOf(line))} parts=${line === ran[i].lines[ran[i].parts ?? -1]} />`,
        )}</ol></section>`,
    )}</div>
    <${Ghost} kind="mend-part" />
    <${Moves} moves=${moves} set=${set} />
    <div class="work-ends">
      <button class="command primary" id="work-give" disabled=${!moves.length || waiting.value}
        onClick=${() => answer({ moves })}>${t("lesson.mend.run")}</button>
      <button class="quiet" id="work-unsure" disabled=${waiting.value}
        onClick=${() => answer(null)}>${t("lesson.work.show")}</button>
    </div>`;
}

/**
 * A part of a prompt: where it can be moved, it is dragged, or its buttons move it by one.
 *
 * @param {{lines: string[], at: number, isMovable: boolean, parts: boolean, onMove: (move: Move) => void}} props
 *   `parts`: the last run's prompt parts here
 */
function Part({ lines, at, isMovable, parts, onMove }) {
  const part = nameOf(lines[at]);
  const mark = parts ? html`<i class="mend-mark">${t("lesson.mend.parts")}</i>` : null;
  if (!isMovable)
    return html`<li class="mend-part" data-drop="part" data-at=${at}><span>${lines[at]}</span>${mark}</li>`;
  /** @param {number} place of the line that it comes before */
  const to = (place) => onMove({ part, before: place < lines.length ? nameOf(lines[place]) : null });
  /** @param {Element | null} under @param {number} y */
  const letGo = (under, y) => {
    const line = /** @type {HTMLElement | null} */ (under?.closest("[data-drop=part]") ?? null);
    if (!line) return under?.closest("[data-drop=end]") ? to(lines.length) : undefined;
    const box = line.getBoundingClientRect();
    const names = [...(line.parentElement?.children ?? [])].map((one) => nameOf(one.textContent ?? ""));
    const place = Number(line.dataset.at) + Number(y > box.top + box.height / 2);
    const before = names.slice(place).find((name) => name !== part) ?? null;
    onMove({ part, before });
  };
  /** @param {number} by */
  const button = (by) => html`<button class="mend-step" disabled=${by < 0 ? at === 0 : at === lines.length - 1}
    aria-label=${t(by < 0 ? "lesson.mend.up" : "lesson.mend.down", { part })}
    onClick=${() => to(by < 0 ? at - 1 : at + 2)}>${by < 0 ? "▲" : "▼"}</button>`;
  const dragged = draggable(lines[at], letGo);
  return html`<li class="mend-part" data-movable="true" data-drop="part" data-at=${at} ...${dragged}>
    <span>${lines[at]}</span>${mark}<i data-grip aria-hidden="true">⠿</i>${button(-1)}${button(1)}</li>`;
}

/** @param {{moves: Move[], set: (moves: Move[]) => void}} props */
const Moves = ({ moves, set }) =>
  html`<ol class="work-list" aria-label=${t("lesson.mend.moves")}>${moves.map(
    (move, i) => html`<li key=${i}>${moveText(move)} <button class="quiet work-back"
    aria-label=${t("lesson.work.back", { deed: moveText(move) })}
    onClick=${() => set(moves.filter((_, j) => j !== i))}>✕</button></li>`,
  )}</ol>`;

/**
 * What came of a session that was run: for each turn what hit, and where it parts.
 *
 * @param {{told: Mended, before: TurnRun[], isShown: boolean}} props `isShown`: its run is the one on stage
 */
function Ran({ told, before, isShown }) {
  const { moves, turns, right } = told;
  const saved = sum(turns, "num_hit") - sum(before, "num_hit");
  return html`<ol>${moves.map((move) => html`<li>${moveText(move)}</li>`)}</ol>
    ${turns.length ? null : html`<p>${t("lesson.mend.not_run")}</p>`}
    <ul class="mend-ran">${turns.map((turn, i) => {
      const { lines, num_tokens: n, num_hit: hit, parts, again, record } = turn;
      const shownHere = isShown && record < own.numRecords.value;
      const isOver = parts === null || parts >= lines.length;
      const link = t("lesson.record", { i: record + 1 });
      const why = again.length ? "lesson.mend.again" : "lesson.mend.new";
      return html`<li>
        <b>${t("lesson.mend.turn", { n: i + 1 })}</b>
        <span class="mend-bar" aria-hidden="true"><i style=${{ width: `${(100 * hit) / n}%` }}></i></span>
        <span class="num">${t("lesson.mend.hit", { hit: grouped(hit), n: grouped(n) })}</span>
        ${shownHere ? html`<button class="lesson-link num" onClick=${() => jumpTo(record)}>${link}</button>` : null}
        ${isOver ? null : html`<small>${t(why, { part: lines[parts], n: again.length })}</small>`}
      </li>`;
    })}</ul>
    ${
      turns.length
        ? html`<p><b>${t(saved < 0 ? "lesson.mend.lost" : "lesson.mend.saved", {
            saved: grouped(Math.abs(saved)),
            hit: grouped(sum(turns, "num_hit")),
            before: grouped(sum(before, "num_hit")),
          })}</b> ${t(right ? "lesson.mend.all_right" : "lesson.mend.more")}</p>`
        : null
    }`;
}
