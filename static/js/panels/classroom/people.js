// Participants on the presenter's own screen: their names, and whether they have answered, are lost or have a request.

import { requestOfClass } from "../../control/class_requests.js";
import { t } from "../../i18n/words.js";
import { html } from "../../kit/html.js";
import { attendance, classState } from "../../state/classroom.js";

/** @import {SeatState} from "../../core/wire.js" */

export function People() {
  const now = attendance.value;
  if (!now) return null;
  const seats = [...now.seats].sort((a, b) => Number(Boolean(b.wish)) - Number(Boolean(a.wish)) || a.seat - b.seat);
  const numPresent = seats.filter((seat) => seat.here).length;
  return html`<section class="class-people" aria-labelledby="class-people-title">
    <h3 class="panel-title" id="class-people-title">${t("class.people", { n: numPresent, all: seats.length })}</h3>
    ${seats.length ? null : html`<p class="hint">${t("class.nobody")}</p>`}
    <ul>${seats.map((seat) => html`<${Person} key=${seat.seat} seat=${seat} />`)}</ul>
  </section>`;
}

/** @param {{seat: SeatState}} props */
function Person({ seat }) {
  const drives = classState.value?.driver === seat.seat;
  const toggleDriver = () => requestOfClass("class_hand", { seat: drives ? null : seat.seat });
  const toggleRemote = () => requestOfClass("class_remote", { seat: seat.seat, allowed: !seat.remote });
  return html`<li class="class-person" data-here=${seat.here} data-lost=${seat.lost} data-drives=${drives}>
    <span class="class-person-name">${seat.name}</span>
    <span class="class-person-marks">
      ${seat.answered ? html`<i title=${t("class.has_answered")} aria-label=${t("class.has_answered")}>✓</i>` : null}
      ${seat.lost ? html`<i class="lost" title=${t("class.is_lost")} aria-label=${t("class.is_lost")}>?</i>` : null}
      ${seat.wish ? html`<b>${t(`class.wishes.${seat.wish}`)}</b>` : null}
    </span>
    <span class="class-person-tools">
      <button class="quiet" aria-pressed=${drives} data-do="hand" onClick=${toggleDriver}>${t(
        drives ? "class.take_back" : "class.hand",
      )}</button>
      <button class="quiet" aria-pressed=${seat.remote} data-do="remote" onClick=${toggleRemote}>${t(
        "class.remote",
      )}</button>
      <button class="quiet" data-do="away" onClick=${() => requestOfClass("class_send_away", { seat: seat.seat })}>${t(
        "class.send_away",
      )}</button>
    </span>
  </li>`;
}

/** Sparkline of "Lost here" presses, one column per minute. */
export function Lost() {
  const now = attendance.value;
  if (!now?.lost.length) return html`<p class="hint">${t("class.nobody_lost")}</p>`;
  const minutes = Math.max(10, Math.ceil(now.seconds / 60));
  const counts = Array.from({ length: minutes }, () => 0);
  for (const [at] of now.lost) counts[Math.min(minutes - 1, Math.floor(at / 60))] += 1;
  const maxCount = Math.max(...counts, 4);
  const last = now.lost.filter(([at]) => now.seconds - at < 60);
  const path = counts.map((n, i) => `${i ? "L" : "M"}${i} ${(30 * (1 - n / maxCount)).toFixed(2)}`).join("");
  return html`<figure class="class-lost-line"><figcaption class="panel-title">${t("class.lost_line", {
    n: now.lost.length,
    last: last.length,
  })}</figcaption>
    <svg viewBox=${`0 -1 ${minutes - 1} 32`} preserveAspectRatio="none" role="img" aria-label=${t("class.lost_line", {
      n: now.lost.length,
      last: last.length,
    })}><path d=${path} vector-effect="non-scaling-stroke" /></svg></figure>`;
}
