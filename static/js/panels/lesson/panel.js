// A lesson as an article of texts, actions and questions, or the list of all lessons.

import { useLayoutEffect, useRef } from "../../../vendor/preact/hooks.js";
import { change, continueLesson, openLesson, restartLesson, waiting } from "../../control/lesson.js";
import { jumpTo } from "../../control/playback.js";
import { settingText } from "../../i18n/options.js";
import { grouped, hasText, inLanguage, t } from "../../i18n/words.js";
import { useReturnedFocus } from "../../kit/focus.js";
import { html } from "../../kit/html.js";
import { Icon } from "../../kit/icon.js";
import { LanguageSwitch } from "../../kit/preferences.js";
import { attends, classState } from "../../state/classroom.js";
import { checkpoint, currentLesson, lessonAfter, REVIEW } from "../../state/lessons.js";
import { openView, settings } from "../../state/settings.js";
import { isEmbedded } from "../../state/without_server.js";
import { Allocator } from "./allocator.js";
import { follow } from "./follow.js";
import { Knob } from "./knob.js";
import { Gain, LessonList } from "./lesson_list.js";
import { PromptOrder } from "./prompt_order.js";
import { Question } from "./question.js";

/** @import {DoItem} from "../../core/wire.js" */
/** @import {Children} from "../../kit/html.js" */
/** @import {Item, Opened} from "../../state/lessons.js" */

/**
 * @typedef {{
 *   tag: string, children: Node[], figure?: string, record?: number | null, setting?: string, thing?: string,
 *   href?: string,
 * }} Element
 * @typedef {string | Element} Node
 */

/** @param {Node[]} nodes @returns {string} */
const plainText = (nodes) => nodes.map((node) => (typeof node === "string" ? node : plainText(node.children))).join("");

/** @param {{nodes: Node[]}} props */
const Blocks = ({ nodes }) => html`<div class="lesson-text">${nodes.map(rendered)}</div>`;

/** @param {Node} node @returns {Children} */
function rendered(node) {
  if (typeof node === "string") return node;
  const inside = node.children.map(rendered);
  if (node.tag === "a") return link(node, inside);
  return html`<${node.tag}>${inside}<//>`;
}

/** @param {Element} node @param {Children} inside */
function link(node, inside) {
  if (node.figure !== undefined) {
    const { record } = node;
    if (record === null || record === undefined) return html`<b class="lesson-figure num">${inside}</b>`;
    return html`<button class="lesson-figure num" title=${t("lesson.figure", { i: record + 1 })}
      onClick=${() => jumpTo(record)}>${inside}</button>`;
  }
  if (node.thing) return html`<b class=${`lesson-thing thing-${node.thing}`}>${inside}</b>`;
  if (node.setting) return html`<${Knob} name=${node.setting} text=${plainText(node.children)} />`;
  const isServerPath = node.href?.startsWith("/");
  if (isEmbedded && isServerPath) return inside; // an embedded page has no other pages
  const href = isServerPath ? `.${node.href}` : node.href;
  return html`<a href=${href} rel="noopener noreferrer" target="_blank">${inside}</a>`;
}

const TEXT_ITEMS = new Set(["text", "show"]); // items that do not wait for the learner
const RUN_CHANGES = ["model", "kv_offload_cpu", "kv_offload_disk"]; // changes made by a restart that are not settings
const COMMAND = "kvtheater serve"; // command that plays lessons on a live model

export function Panel() {
  const now = currentLesson.value;
  const wasList = useRef(false);
  const isList = settings.lesson.value === null && !attends.value; // a follower has no list
  wasList.current ||= isList;
  useReturnedFocus(!isList);
  return html`<main class="lesson" id="lesson" aria-busy=${waiting.value}>
    <div class="lesson-head">
      <${HomeLink} />
      <span class="lesson-tools"><${ExportLink} /><${LanguageSwitch} />
        <button class="quiet" id="lesson-leave" onClick=${() => openView("workspace")}>${t(
          "lesson.explore",
        )}</button></span>
    </div>
    ${isList ? html`<${LessonList} />` : now ? articleOf(now, wasList.current) : html`<${Wait} />`}
  </main>`;
}

/** Link to the list of lessons. A follower of a class has no list and gets plain text. */
function HomeLink() {
  const name = html`<span class="wordmark-kv"><i>K</i><i>V</i></span> Theater`;
  if (attends.value) return html`<span class="wordmark">${name}</span>`;
  return html`<button class="wordmark lesson-home" onClick=${() => openLesson(null)}
    aria-label=${`KV Theater: ${t("lesson.all")}`}>${name}</button>`;
}

/**
 * The article, keyed so that another lesson or language remounts it.
 * @param {Opened} now @param {boolean} wasList
 */
const articleOf = (now, wasList) =>
  html`<${Article} key=${`${now.lesson}/${now.language}`} now=${now} wasList=${wasList} />`;

/** Link to download the open lesson as a file, if a model can record it. */
function ExportLink() {
  const now = currentLesson.value;
  if (now?.source !== "live" || now.lesson === REVIEW) return null;
  return html`<a class="tool" id="lesson-export" href=${`api/lessons/${now.lesson}/export.html`} download
    aria-label=${t("lesson.export")} title=${t("lesson.export")}><${Icon} name="download" /></a>`;
}

const Wait = () => html`<p class="lesson-wait" role="status">${t("lesson.wait")}</p>`;

/** @param {{now: Opened, wasList: boolean}} props `wasList`: whether it was opened from the list of lessons */
function Article({ now, wasList }) {
  const articleRef = useRef(/** @type {HTMLElement | null} */ (null));
  const lastPosition = useRef(-1);
  /** @type {Map<number, Item[]>} */
  const sections = new Map();
  for (const item of now.items)
    if (item.kind !== "show") sections.set(item.section, [...(sections.get(item.section) ?? []), item]);
  const optional = now.progress.num_sections - now.progress.num_optional; // the first optional section
  useLayoutEffect(() => {
    const [article, { at }, previous] = [articleRef.current, now.progress, lastPosition.current];
    lastPosition.current = at;
    if (!article || previous === at) return;
    const isDone = (/** @type {Item} */ { kind, index }) => !TEXT_ITEMS.has(kind) && index < at;
    const last = previous < 0 ? now.items.findLast(isDone)?.index : previous;
    const part = article.querySelector(`[data-item="${last}"]`);
    const end = article.querySelector(".lesson-end-mark");
    if (!part && wasList && document.activeElement === document.body) article.focus(); // its card was removed
    if (part && end) follow(part.querySelector('[data-news="true"]') ?? part, end, previous >= 0);
  }, [now.progress.at]);
  return html`<article class="article" ref=${articleRef} tabindex="-1" aria-labelledby="lesson-title">
    <h1 class="lesson-title" id="lesson-title">${now.title}</h1>
    <${Progress} now=${now} />
    <${Recorded} now=${now} />
    ${[...sections].map(
      ([section, items]) =>
        html`<section class="lesson-section" key=${section}>
          ${section === optional ? html`<h2 class="lesson-more">${t("lesson.more")}</h2>` : null}
          ${items.map(
            (
              item,
            ) => html`<div class="lesson-part" key=${item.index} data-item=${item.index} tabindex="-1"><${LessonItem}
              item=${item} /></div>`,
          )}
        </section>`,
    )}
    ${
      now.progress.over
        ? html`<${now.kind === "lesson" ? End : Gain} now=${now} />`
        : html`<p class="lesson-rest">${t("lesson.rest")}</p>`
    }
    <div class="lesson-end-mark"></div>
  </article>`;
}

/** Progress by section. @param {{now: Opened}} props */
function Progress({ now }) {
  const { num_sections: count, over } = now.progress;
  const at = now.items.at(-1)?.section ?? 0;
  const text = t("lesson.progress", { i: at + 1, n: count });
  return html`<div class="lesson-progress" role="img" aria-label=${text} title=${text}>
    ${Array.from({ length: count }, (_, i) => html`<i data-done=${over || i < at} data-now=${!over && i === at}></i>`)}
    <span class="num">${t("lesson.minutes", { n: now.minutes })}</span>
  </div>
  <${Changed} now=${now} />`;
}

/** Settings changed by the learner, with a reset button. @param {{now: Opened}} props */
function Changed({ now }) {
  const changed = Object.entries(now.changes).map(([name, value]) => settingText(name, value));
  if (!changed.length) return null;
  return html`<p class="lesson-changed" id="lesson-changed" role="status">${t("lesson.changed", {
    changes: changed.join(" · "),
  })} <button class="lesson-link" id="lesson-own" onClick=${() => change({})}>${t("lesson.own")}</button></p>`;
}

/** Note on a recorded lesson, and the command that plays it live. @param {{now: Opened}} props */
function Recorded({ now }) {
  if (now.source === "live" || now.source === "class") return null;
  return html`<p class="lesson-recorded" id="lesson-recorded">${t(`lesson.recorded.${now.source}`)} ${t(
    "lesson.recorded.live",
  )} <code>${COMMAND}</code></p>`;
}

/** @param {{item: Item}} props */
function LessonItem({ item }) {
  if (item.kind === "text") return html`<${Blocks} nodes=${item.blocks} />`;
  if (item.kind === "ask") return html`<${Question} item=${item} />`;
  if (item.kind === "work") return html`<${Allocator} item=${item} />`;
  if (item.kind === "mend") return html`<${PromptOrder} item=${item} />`;
  if (item.kind === "do") return html`<${Action} item=${item} />`;
  if (item.kind === "sandbox") return html`<${Sandbox} item=${item} />`;
  return null;
}

/** An action of the lesson: a button that triggers it, then a note that it was done. @param {{item: DoItem}} props */
function Action({ item }) {
  const { verb, count, until, rank, keep, changes, lanes } = item.action;
  const values = {
    n: count,
    until: untilText(until, count),
    rank: rank + 1,
    keep: keep[currentLesson.value?.language ?? ""] ?? 0,
  };
  const names = Object.entries(changes).map(([name, value]) =>
    RUN_CHANGES.includes(name) ? t(`lesson.${name}`, { name: value }) : settingText(name, value),
  );
  const key = verb === "race" ? `lesson.do.race.${lanes}` : `lesson.do.${Object.keys(keep).length ? "keep" : verb}`;
  const text = t(key, { ...values, changes: names.join(" · ") || t("lesson.as_before") });
  const isNext = checkpoint.value === item;
  if (item.moment)
    return html`<p class="lesson-done"><${Icon} name="done" /> ${text} ${
      verb === "race" ? null : html`<${Reached} moment=${item.moment} />`
    }</p>`;
  if (currentLesson.value?.source === "class")
    return html`<p class="lesson-done" data-coming="true"><${Icon} name="step" /> ${text} <span>${t(
      "lesson.presenter_goes_on",
    )}</span></p>`;
  return html`<button class="lesson-do" id="lesson-go" disabled=${!isNext || waiting.value}
    onClick=${continueLesson}><${Icon} name=${verb === "prefill" ? "prefill" : "step"} /> ${text}</button>`;
}

/**
 * Number of records that the run reached, as a link if that run is on stage.
 * @param {{moment: NonNullable<DoItem["moment"]>}} props
 */
function Reached({ moment: { run, records } }) {
  const isShown = currentLesson.value?.items.every((item) => !("moment" in item) || (item.moment?.run ?? 0) <= run);
  if (!records) return null;
  const text = t("lesson.record", { i: grouped(records) });
  if (!isShown) return html`<span class="num">${text}</span>`;
  return html`<button class="lesson-link num" onClick=${() => jumpTo(records - 1)}>${text}</button>`;
}

/** @param {string} until @param {number} n */
function untilText(until, n) {
  const key = `lesson.until.${until}`;
  return hasText(key) ? t(key, { n }) : t("lesson.until.other", { operation: until });
}

/** @param {{item: import("../../core/wire.js").SandboxItem}} props */
function Sandbox({ item }) {
  const now = currentLesson.value;
  const isCurrent = checkpoint.value === item;
  const isLive = now?.source === "live";
  const isClass = now?.source === "class";
  const hasMore = now !== null && now.progress.num_optional > 0;
  return html`<div class="lesson-sandbox">
    <p>${t(isLive ? "lesson.sandbox" : isClass ? "lesson.sandbox_class" : "lesson.sandbox_recorded")} ${
      isLive || isClass ? null : html`<code>${COMMAND}</code>`
    }</p>
    <div class="lesson-ends">
      <button class="quiet" id="lesson-bench" onClick=${() => openView("workspace")}>${t(
        isLive ? "lesson.knobs" : "lesson.look",
      )}</button>
      ${
        isCurrent && !isClass
          ? html`<button class="quiet" id="lesson-go" disabled=${waiting.value} onClick=${continueLesson}>${t(
              hasMore ? "lesson.go_on" : "lesson.finish",
            )}</button>`
          : null
      }
    </div>
    ${isCurrent && hasMore && !isClass ? html`<${Score} now=${now} />` : null}
  </div>`;
}

/** Number of questions answered correctly at the first try; not shown in a class. @param {{now: Opened}} props */
function Score({ now }) {
  if (classState.value) return html`<p>${t("lesson.ended")}</p>`;
  const answers = now.items.flatMap((item) =>
    item.kind === "ask" ? [item.given[0] === item.right] : "given" in item ? [item.given[0]?.right ?? false] : [],
  );
  const right = answers.filter(Boolean).length;
  return html`<p>${t("lesson.over", { right, n: answers.length })}</p>`;
}

/** @param {{now: Opened}} props */
function End({ now }) {
  const next = lessonAfter(now);
  if (attends.value) return html`<div class="lesson-over" role="status"><${Score} now=${now} /></div>`;
  return html`<div class="lesson-over" role="status">
    <${Score} now=${now} />
    <div class="lesson-ends">
      ${
        next
          ? html`<button class="command primary" id="lesson-next" onClick=${() => openLesson(next.id)}>${t(
              "lesson.next",
              {
                title: inLanguage(next.title),
              },
            )}</button>`
          : null
      }
      <button class="quiet" id="lesson-all" onClick=${() => openLesson(null)}>${t("lesson.all")}</button>
      <button class="quiet" id="lesson-again" onClick=${restartLesson}>${t("lesson.again")}</button>
    </div>
  </div>`;
}
