// Next steps after the intro view: a prompt of the user's own, and links to the rest of the page.

import { useState } from "../../../vendor/preact/hooks.js";
import { effect, untracked } from "../../../vendor/signals/signals.js";
import { step } from "../../control/actions.js";
import { writeOwn } from "../../control/opening.js";
import { t } from "../../i18n/words.js";
import { html } from "../../kit/html.js";
import { withValue } from "../../kit/inputs.js";
import { isForeign } from "../../net/commands.js";
import { session } from "../../net/session.js";
import { attends, classState, startOpen } from "../../state/classroom.js";
import { ALLOCATOR } from "../../state/lessons.js";
import { openView, settings } from "../../state/settings.js";
import * as store from "../../state/store.js";
import { hasLesson, isEmbedded, isSite } from "../../state/without_server.js";

const MAX_PROMPT = 2000; // characters

/** Whether a prompt can be run: the server has a model and the page does not follow a class. */
const canAsk = () => !isEmbedded && !isSite && !attends.value && store.modelFacts.value?.live !== false;

/** Form for a prompt of the user's own, which starts a new run. */
export function OwnPrompt() {
  const [text, setText] = useState("");
  const [isWaiting, setWaiting] = useState(false);
  if (!canAsk()) return null;
  /** @param {Event} event */
  const submit = async (event) => {
    event.preventDefault();
    if (!text.trim() || isWaiting) return;
    setWaiting(true);
    if (await writeOwn(text)) setText("");
    setWaiting(false);
  };
  return html`<form class="intro-own" id="intro-own" onSubmit=${submit}>
    <input id="own-words" maxlength=${MAX_PROMPT} autocomplete="off" value=${text} placeholder=${t("intro.own")}
      aria-label=${t("intro.own")} onInput=${withValue(setText)} />
    <button class="command" id="own-go" disabled=${!text.trim() || isWaiting}>${t(
      isWaiting ? "intro.own.waits" : "intro.own.go",
    )}</button>
  </form>`;
}

/** Step each new run once, which processes its prompt. Returns a function that stops this. */
export function stepNewRun() {
  /** @type {import("../../core/log.js").TraceLog | null} */
  let lastLog = null; // the last run that was stepped
  return effect(() => {
    const { value: log } = store.own.log;
    const isNew = store.connection.value === "live" && store.status.value?.num_records === 0 && log !== lastLog;
    if (!log || !isNew || attends.value || settings.step.value !== null) return;
    if (isForeign(session.run?.theater ?? "")) return; // another user's run is not stepped without confirmation
    lastLog = log;
    untracked(step);
  });
}

const learn = () => openView("lesson");

const allocate = () => openView("lesson", { lesson: ALLOCATOR });

const museum = () => openView("workspace", { detail: "museum", region: "detail" });

export function NextLinks() {
  if (attends.value) return null;
  const hasServer = !isEmbedded && !isSite;
  const isLive = store.modelFacts.value?.live !== false;
  /** @param {string} id @param {string} text @param {() => void} open */
  const link = (id, text, open) => html`<button class="intro-door" id=${id} onClick=${open}>${text}</button>`;
  return html`<nav class="intro-doors" id="intro-doors" aria-label=${t("intro.doors")}>
    ${isEmbedded && !hasLesson ? null : link("intro-learn", t("header.learn"), learn)}
    ${hasServer && isLive ? link("intro-allocator", t("intro.allocator"), allocate) : null}
    ${link("intro-museum", t("detail.museum"), museum)}
    ${hasServer ? html`<a class="intro-door" href="scale">${t("header.scale")}</a>` : null}
    ${hasServer ? html`<a class="intro-door intro-prompts" href="prompts">${t("header.prompts")}</a>` : null}
    ${hasServer ? html`<a class="intro-door" href="bench">${t("header.bench")}</a>` : null}
    ${hasServer && !classState.value ? link("intro-teach", t("header.teach"), () => (startOpen.value = true)) : null}
    ${link("intro-more", t("intro.first.more"), () => openView("workspace"))}
  </nav>`;
}
