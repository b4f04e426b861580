// The block table of each sequence: logical block -> physical block.

import { t } from "../i18n/index.js";
import { pointed, select, shownSeq, stage, state } from "../model/store.js";
import { html } from "./html.js";
import { Fidelity, Swatch, Term } from "./words.js";

export function Tables() {
  const now = state.value;
  const rows = now ? [...now.sequences.values()].filter((seq) => seq.block_table.length > 0 || seq.seq_id === shownSeq.value) : [];
  return html`<section class="tables">
    <h3 class="panel-title"><${Term} id="block_table">${t("tables.title")}<//> <${Fidelity} kind="captured" /></h3>
    ${rows.length === 0
      ? html`<p class="hint">${t("tables.empty")}</p>`
      : html`<div class="table-rows">${rows.map((seq) => html`<${TableRow} key=${seq.seq_id} seq=${seq} />`)}</div>`}
  </section>`;
}

function TableRow({ seq }) {
  const name = t("sequence.name", { id: seq.seq_id });
  return html`<div class=${seq.seq_id === shownSeq.value ? "table-row shown" : "table-row"}>
    <span class="table-name"><${Swatch} id=${seq.seq_id} />${seq.seq_id}</span>
    <span class="entries num">
      ${seq.block_table.length === 0 ? html`<span class="none">${t("tables.none")}</span>` : null}
      ${seq.block_table.map((block, logical) => html`<${Entry} name=${name} seq=${seq} block=${block} logical=${logical} />`)}
    </span>
  </div>`;
}

function Entry({ name, seq, block, logical }) {
  const target = pointed.value;
  const shown = seq.seq_id === shownSeq.value;
  const size = state.value.block_size;
  const here = target && (target.position !== undefined ? shown && Math.floor(target.position / size) === logical : target.block === block);
  const shared = state.value.blocks[block].ref_count > 1;
  const choose = () => select(shown && logical * size < (stage.value?.numFilled ?? 0) ? { position: logical * size } : { block, offset: 0 });
  return html`<button
    class=${`entry${here ? " pointed" : ""}${shared ? " shared" : ""}`}
    aria-description=${t("tables.entry", { name, logical, block })}
    onClick=${choose}
  >
    <small>${logical}</small>${block}
  </button>`;
}
