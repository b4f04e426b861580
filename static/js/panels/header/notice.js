// Notice of a connection problem with the available actions, and the black screen.

import { effect, signal } from "../../../vendor/signals/signals.js";
import { blackout } from "../../control/keyboard.js";
import { startAgain, startOwnRun } from "../../control/restart.js";
import { refusalText } from "../../i18n/language.js";
import { sentences, t } from "../../i18n/words.js";
import { html } from "../../kit/html.js";
import { Icon } from "../../kit/icon.js";
import { asksForControl, rememberSession } from "../../net/created_sessions.js";
import { BARRED, NOTHING_HERE, STOPPED } from "../../net/errors.js";
import { session } from "../../net/session.js";
import { attends, classState } from "../../state/classroom.js";
import { connection, modelFacts, numRecords, serverModel } from "../../state/store.js";

const SERVER_REFUSALS = [BARRED, STOPPED]; // reasons that concern the whole server

/** Whether the notice is dismissed. It returns with the next change of the connection, or on request. */
export const isDismissed = signal(false);
effect(() => {
  connection.value;
  isDismissed.value = false;
});

export function Notice() {
  const now = connection.value;
  if (asksForControl.value && now === "live") return html`<${ForeignRun} />`;
  if (isDismissed.value) return null;
  if (now === "lost")
    return html`<p class="toast quiet" id="notice">
      <span>${lostText()}</span><${Close} />
    </p>`;
  if (now !== "gone") return null;
  const cannotStart = isBarred() || followsClass();
  const why = sentences(lossReason());
  if (cannotStart && !why) return null;
  return modelFacts.value?.live === false
    ? NoModel()
    : html`<p class="toast" id="notice">
        <span>${why}</span>
        ${
          cannotStart
            ? null
            : html`<button class="command primary" id="btn-again" onClick=${startAgain}
          aria-disabled=${session.isStarting.value}>${t("connection.again")}</button>`
        }
        <${Close} />
      </p>`;
}

/** Shown before the user controls another user's run for the first time. */
const ForeignRun = () => html`<p class="toast" id="notice-foreign">
  <span>${t("connection.foreign")}</span>
  <button class="command primary" id="btn-own-run" onClick=${startOwnRun}>${t("connection.own_run")}</button>
  <button class="quiet" id="btn-drive" onClick=${() => rememberSession(session.run?.theater ?? "")}>${t(
    "connection.drive",
  )}</button>
  <button class="tool small" aria-label=${t("help.close")} onClick=${() => (asksForControl.value = false)}><${Icon}
    name="close" /></button>
</p>`;

/** Reason for the lost connection: the server's, if it reported one. */
function lostText() {
  const model = serverModel.value;
  if (model?.state === "failed")
    return t("connection.failed", { error: refusalText({ message: model.error, said: model.said }) });
  return t(numRecords.value ? "connection.lost_long" : "connection.lost_empty");
}

/** Reason why there is no run, and the remaining options. */
function lossReason() {
  if (session.isStarting.value) return [t("connection.awaited")];
  const reasons = explanation();
  if (isBarred() || followsClass()) {
    const isInClassBar = attends.value && SERVER_REFUSALS.includes(session.problem.value?.key ?? "");
    const why = isInClassBar ? [] : reasons; // participants read it in the class's bar
    return numRecords.value ? [...why, t("connection.read", { n: numRecords.value })] : why;
  }
  if (numRecords.value) return [...reasons, t("connection.gone_long", { n: numRecords.value })];
  return reasons.length ? reasons : [t("connection.gone_empty")];
}

/** Whether the server rejects all requests without its token. */
const isBarred = () => session.problem.value?.key === BARRED;

/** Whether the page follows a class and therefore may not start a run. */
const followsClass = () => attends.value && !classState.value?.over;

/** Known reason why there is no run: one sentence or none. */
function explanation() {
  const why = session.problem.value;
  return why ? [t(why.key, why.values)] : [];
}

/** Shown for a server without a model, which can only show recordings. */
function NoModel() {
  const nothing = session.problem.value?.key === NOTHING_HERE;
  return html`<p class="toast" id="notice">
    <span>${
      explanation()[0] ??
      t(numRecords.value ? "connection.gone_read" : "connection.gone_unmodelled", { n: numRecords.value })
    }</span>
    ${
      nothing
        ? null
        : html`<button class="command primary" id="btn-recording"
      onClick=${() => session.openFirst()}>${t("connection.recording")}</button>`
    }
    <${Close} />
  </p>`;
}

function Close() {
  return html`<button class="tool small" id="notice-close" aria-label=${t("help.close")}
    onClick=${() => (isDismissed.value = true)}><${Icon} name="close" /></button>`;
}

/** Black screen, as toggled by a presenter's remote. A click or the same key brings the page back. */
export function Blackout() {
  if (!blackout.value) return null;
  return html`<button class="blackout" id="blackout" aria-label=${t("key.black")}
    onClick=${() => (blackout.value = false)}></button>`;
}
