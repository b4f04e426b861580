// A placement, tried: requests served on it by the engine's scheduler, simulated by the server when one asks.

import { useEffect, useState } from "../../../../vendor/preact/hooks.js";
import { html } from "../../../kit/html.js";
import { language } from "../../../tell/language.js";
import { t } from "../../../tell/words.js";

/**
 * @typedef {{
 *   num_requests: number, within_ttft: number, within_tpot: number, within_both: number, streamed_ttft: number
 * }} Tried
 * @param {{way: string, asked: Record<string, unknown>, share: number}} props
 */
export function Trial({ way, asked, share }) {
  const [state, setState] = useState(/** @type {{tried?: Tried, problem?: string, runs?: boolean}} */ ({}));
  const given = Object.entries({ ...asked, way }).filter(([, value]) => value !== "");
  const query = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  useEffect(() => setState({}), [query]); // what was tried was another demand's
  const run = async () => {
    setState({ runs: true });
    try {
      const answer = await fetch(`api/scale/tried?${query}`);
      const body = await answer.json();
      setState(
        answer.ok ? { tried: body.tried } : { problem: body.error.said?.[language.value] ?? body.error.message },
      );
    } catch {
      setState({ problem: t("error.no_answer") });
    }
  };
  return html`<p class="scale-trial" aria-live="polite">
    <button class="tool" disabled=${state.runs} onClick=${run}>
      ${t(state.runs ? "scale.placement.trying" : "scale.placement.try")}
    </button>${" "}
    ${state.tried ? html`<span data-tried=${state.tried.within_both}>${told(state.tried, share)}</span>` : null}
    ${state.problem ? html`<span class="scale-problem">${state.problem}</span>` : null}
  </p>`;
}

/**
 * @param {Tried} tried
 * @param {number} share
 */
function told(tried, share) {
  return t("scale.placement.tried", {
    requests: tried.num_requests,
    ttft: percent(tried.within_ttft),
    tpot: percent(tried.within_tpot),
    streamed: percent(tried.streamed_ttft),
    share: percent(share),
  });
}

/** @param {number} share */
const percent = (share) => String(Number((100 * share).toFixed(1)));
