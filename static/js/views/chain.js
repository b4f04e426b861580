// The provenance chain of what is pointed at, link by link, every link with its numbers.

import { bytesText, grouped, probabilityText, t } from "../i18n/index.js";
import { chain, goTo, log, selected, stage } from "../model/store.js";
import { labelText } from "../trace/labels.js";
import { html } from "./html.js";
import { Swatch, Term } from "./words.js";

export function Chain() {
  const now = chain.value;
  return html`<div class="chain" id="chain" role="region" aria-label=${t("chain.title")} data-pinned=${selected.value !== null}>
    ${now ? html`<${Links} now=${now} />` : html`<p class="hint">${t("chain.empty")}</p>`}
  </div>`;
}

function Links({ now }) {
  const { stage: at } = { stage: stage.value };
  const key = t("chain.at", { token: labelText(now.label), position: now.position });
  if (!now.place) {
    const text = now.position >= at.numFilled && !at.released && at.seq.status !== "finished" ? t("chain.unwritten") : t("chain.gone");
    return html`<ol class="links"><${Link} term="key" name=${t("chain.key")} value=${key} /><li class="link-text">${text}</li></ol>`;
  }
  const { place, block, origin } = now;
  const bytes = log.value.header.kv_bytes_per_token;
  return html`<ol class="links">
    ${now.weight !== null
      ? html`<${Link}
          kind="q"
          term="query"
          name=${t("chain.query")}
          value=${t("chain.at", { token: labelText(at.labels[at.query]), position: at.query })}
          second=${t("chain.weight", { weight: probabilityText(now.weight) })}
        />`
      : null}
    <${Link} kind="k" term="key" name=${t("chain.key")} value=${key} second=${`L${at.layer} · H${at.kvHead}`} />
    <${Link}
      term="slot"
      name=${t("chain.slot")}
      value=${place.slot}
      second=${t("chain.slot_formula", { block: place.block, size: at.blockSize, offset: place.offset })}
    />
    <${Link} term="block" name=${t("chain.block")} value=${place.block} second=${block.block_hash ? `# ${hashText(block.block_hash)}` : t("chain.no_hash")} />
    <${Link} term="block_table" name=${t("chain.table")} value=${`[${place.logical}] → ${place.block}`} second=${t("sequence.name", { id: at.seq.seq_id })} />
    <${Link}
      term="ref_count"
      name=${t("chain.owners")}
      value=${now.sharers.map((id) => html`<${Swatch} id=${id} />${id} `)}
      second=${t("chain.ref_count", { n: block.ref_count })}
    />
    ${origin
      ? html`<${Link}
          term="free_queue"
          name=${t("chain.written")}
          value=${html`<button class="link-go" title=${t("chain.go", { record: origin.record + 1 })} onClick=${() => goTo(origin.record)}>
            ${t("chain.record", { record: origin.record + 1 })}
          </button>`}
          second=${t("chain.by", { name: t("sequence.name", { id: origin.seq_id }) })}
        />`
      : null}
    <${Link} term="kv_cache" name=${t("chain.bytes")} value=${bytesText(bytes)} second=${t("chain.bytes_note", { layers: grouped(log.value.header.model.num_layers) })} />
  </ol>`;
}

function Link({ kind = "", term, name, value, second = "" }) {
  return html`<li class=${`chain-link ${kind}`}>
    <span class="link-name"><${Term} id=${term}>${name}<//></span>
    <span class="link-value num">${value}</span>
    <span class="link-second num">${second}</span>
  </li>`;
}

/** The first bytes of a hash, as hexadecimal. */
export function hashText(hash) {
  return Array.from(hash.slice(0, 3), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
