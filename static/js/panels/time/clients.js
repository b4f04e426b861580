// Client view, as in vLLM's AsyncLLMEngine: a queue per client, one scheduler queue, one step for all, a stream per
// request.

import { clientsAt, hasClients } from "../../core/client_queues.js";
import { labelText, loneLabel } from "../../core/labels.js";
import { stepSeconds } from "../../core/metrics.js";
import { grouped, langOf, secondsText, t } from "../../i18n/words.js";
import { Swatch } from "../../kit/colour.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { tips } from "../../kit/tooltip.js";
import { settings } from "../../state/settings.js";
import { connection, following, log, ownIsShown, status, viewIndex } from "../../state/store.js";

/** @import {ClientRow} from "../../core/client_queues.js" */

const MAX_CLIENTS = 8; // the clients with the highest load; the number of others is stated
const MAX_MARKS = 6; // marks per cell of requests and tokens
const MAX_SWATCHES = 4; // sequences shown as swatches

/** Waiting requests per client as reported by the server, or null unless the live run's newest record is shown. */
const waitingNow = () =>
  connection.value === "live" && following.value && ownIsShown.value ? (status.value?.api?.waiting ?? null) : null;

/** @param {ClientRow} row */
const load = ({ ahead, queued, running }) => ahead + queued.length + running.length;

/** Lanes of the clients. Renders nothing in runs without client requests. */
export function ClientLanes() {
  const now = log.value;
  const waiting = waitingNow();
  if (!now || (!waiting && !hasClients(now))) return null;
  const index = viewIndex.value;
  const all = clientsAt(now, index, waiting);
  const shown = [...all].sort((a, b) => load(b) - load(a)).slice(0, MAX_CLIENTS);
  const rows = all.filter((row) => shown.includes(row));
  const record = now.records[index];
  const isStep = record?.kind === "step";
  const tokens = rows.reduce((sum, row) => sum + row.tokens, 0);
  return html`<section class="clients" id="clients" aria-labelledby="clients-title">
    <h4 class="panel-title" id="clients-title">${t("time.clients")}
      <${Fidelity} kind=${waiting ? "captured" : "derived"} formula=${t("time.clients.formula")} /></h4>
    <div class="clients-table" role="table" aria-labelledby="clients-title">
      <div role="row" class="clients-row clients-names">
        ${
          /** @type {const} */ (["lane", "queue", "step", "stream"]).map(
            (name) => html`<span role="columnheader" key=${name} data-part=${name}><b>${t(`time.clients.${name}`)}</b>
              <code tabindex="0" ...${tips([t(`time.clients.${name}.tip`), t("time.flow.vllm")])}>${VLLM[name]}</code>
            </span>`,
          )
        }
      </div>
      ${rows.map((row) => html`<${Row} key=${row.client} row=${row} />`)}
    </div>
    <p class="hint num" role="status">${
      rows.length
        ? isStep
          ? t("time.clients.said", {
              step: grouped(record.step),
              clients: rows.filter((row) => row.tokens).length,
              tokens: grouped(tokens),
              n: tokens,
              time: secondsText(stepSeconds(record)),
            })
          : t("time.clients.no_step")
        : t("time.clients.nobody")
    }${all.length > rows.length ? ` ${t("time.clients.more", { n: all.length - rows.length })}` : ""}</p>
  </section>`;
}

const VLLM = {
  lane: "AsyncLLMEngine.generate",
  queue: "Scheduler.waiting",
  step: "EngineCore.step",
  stream: "RequestOutputCollector",
};

/** @param {{row: ClientRow}} props */
function Row({ row: { client, ahead, queued, running, tokens, streamed } }) {
  return html`<div role="row" class="clients-row num">
    <span role="cell" data-part="lane"><b class="clients-who" title=${client}>${client}</b>
      <span class="clients-lane" aria-label=${t("time.clients.waits", { n: ahead })} role="img">${Array.from(
        { length: Math.min(ahead, MAX_MARKS) },
        () => html`<i></i>`,
      )}</span>${ahead ? grouped(ahead) : "·"}</span>
    <span role="cell" data-part="queue"><${Marks} seqs=${queued} /></span>
    <span role="cell" data-part="step" data-works=${tokens > 0}>${
      tokens
        ? html`<span class="clients-more">${t("time.clients.tokens", { tokens: grouped(tokens), n: tokens })}</span>`
        : null
    }<${Marks} seqs=${running} /></span>
    <span role="cell" data-part="stream">${streamed.slice(0, MAX_MARKS).map(({ seq, bytes, end }) => {
      const text = bytes.length ? labelText(loneLabel(bytes)) : t("time.clients.hidden");
      return html`<button key=${seq} class="clients-token" lang=${langOf(text)}
          aria-label=${t("time.clients.gets", { name: t("sequence.name", { id: seq }), text })}
          onClick=${() => (settings.seq.value = seq)}><${Swatch} id=${seq} />${text}${end ? " ∎" : ""}</button>`;
    })}${streamed.length > MAX_MARKS ? `+${streamed.length - MAX_MARKS}` : streamed.length ? null : "·"}</span>
  </div>`;
}

/** @param {{seqs: number[]}} props */
const Marks = ({ seqs }) =>
  seqs.length
    ? html`${seqs.slice(0, MAX_SWATCHES).map((id) => html`<${Swatch} key=${id} id=${id} />`)}<span
      class="visually-hidden">${t("time.clients.sequences", { n: seqs.length })}</span>${
        seqs.length > MAX_SWATCHES
          ? html`<span class="clients-more" aria-hidden="true">+${seqs.length - MAX_SWATCHES}</span>`
          : null
      }`
    : "·";
