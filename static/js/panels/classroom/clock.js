// The time that is left for a question: counted here, told once in words, not read aloud every second.

import { useEffect, useState } from "../../../vendor/preact/hooks.js";
import { html } from "../../kit/html.js";
import { secondsLeft } from "../../state/classroom.js";
import { t } from "../../tell/words.js";

/** @param {{poll: import("../../core/wire.js").PollTold}} props */
export function Clock({ poll }) {
  const [, tick] = useState(0);
  useEffect(() => {
    if (poll.left === null) return undefined;
    const every = setInterval(() => tick(performance.now()), 250);
    return () => clearInterval(every);
  }, [poll.left === null]);
  const seconds = secondsLeft();
  if (seconds === null) return null;
  const left = Math.ceil(seconds);
  const text = `${Math.floor(left / 60)}:${String(left % 60).padStart(2, "0")}`;
  return html`<span class="class-clock num" data-over=${left === 0}><span aria-hidden="true">${text}</span>
    <span class="visually-hidden" role="timer" aria-live="off">${t("class.clock", {
      n: Math.round(poll.seconds ?? 0),
    })}</span></span>`;
}
