// The time that is left for a question: counted here, told once in words, not read aloud every second.

import { useEffect, useState } from "../../../vendor/preact/hooks.js";
import { html } from "../../kit/html.js";
import { t } from "../../tell/words.js";

/** @param {{poll: import("../../core/wire.js").PollTold}} props */
export function Clock({ poll }) {
  const [heard] = useState(() => ({ left: poll.left, at: performance.now() }));
  if (heard.left !== poll.left) Object.assign(heard, { left: poll.left, at: performance.now() });
  const [, tick] = useState(0);
  useEffect(() => {
    if (poll.left === null) return undefined;
    const every = setInterval(() => tick(performance.now()), 250);
    return () => clearInterval(every);
  }, [poll.left === null]);
  if (poll.left === null) return null;
  const left = Math.max(0, Math.ceil(poll.left - (performance.now() - heard.at) / 1000));
  const text = `${Math.floor(left / 60)}:${String(left % 60).padStart(2, "0")}`;
  return html`<span class="class-clock num" data-over=${left === 0}><span aria-hidden="true">${text}</span>
    <span class="visually-hidden" role="timer" aria-live="off">${t("class.clock", {
      n: Math.round(poll.seconds ?? 0),
    })}</span></span>`;
}
