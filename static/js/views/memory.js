// KV memory in numbers: what is used, reserved, wasted, cached; the formula with this model's numbers.

import { bytesText, grouped, t } from "../i18n/index.js";
import { log, record, state } from "../model/store.js";
import { kvTerms } from "../trace/metrics.js";
import { memoryFigures } from "../trace/state.js";
import { html } from "./html.js";
import { Pool } from "./pool.js";
import { Tables } from "./tables.js";
import { Fidelity, Term, tips } from "./words.js";

export function Memory() {
  return html`<section class="region memory" aria-labelledby="memory-title" id="region-memory">
    <h2 id="memory-title" class="visually-hidden">${t("region.memory")}</h2>
    <${Pool} />
    <${Tables} />
    <${Figures} />
  </section>`;
}

function Figures() {
  const header = log.value?.header;
  if (!header || !state.value) return html`<section class="figures"></section>`;
  const perToken = header.kv_bytes_per_token;
  const m = record.value?.memory ?? memoryFigures(state.value, perToken);
  const waste = m.bytes_held - m.bytes_used;
  const total = m.num_blocks * m.block_size * perToken;
  const share = (bytes) => ({ width: `${(100 * bytes) / total}%` });
  const slots = (n) => t("memory.tokens", { n: grouped(n) });
  const free = total - m.bytes_held - m.bytes_cached;
  return html`<section class="figures" id="memory-figures">
    <h3 class="panel-title"><${Term} id="kv_cache">${t("memory.title")}<//></h3>
    <div class="memory-bar" aria-hidden="true">
      <i class="used" style=${share(m.bytes_used)}></i><i class="waste" style=${share(waste)}></i><i class="cached" style=${share(m.bytes_cached)}></i>
    </div>
    <dl class="figure-list num">
      <${Figure} kind="used" name=${t("memory.used")} bytes=${m.bytes_used} note=${slots(m.tokens_held)} formula="tokens_held · ${perToken}" />
      <${Figure} kind="held" name=${t("memory.reserved")} bytes=${m.bytes_held} note=${`${m.blocks_held} / ${m.num_blocks}`} formula="blocks_held · block_size · ${perToken}" />
      <${Figure}
        kind="waste"
        name=${html`<${Term} id="waste">${t("memory.waste")}<//>`}
        bytes=${waste}
        note=${m.bytes_held ? `${((100 * waste) / m.bytes_held).toFixed(1)}\u2009%` : "–"}
        formula="held − used"
      />
      <${Figure} kind="cached" name=${t("memory.cached")} bytes=${m.bytes_cached} note=${`${m.blocks_cached} / ${m.num_blocks}`} formula="blocks_cached · block_size · ${perToken}" />
      <${Figure} kind="free" name=${t("memory.free")} bytes=${free} note=${`${m.blocks_free} / ${m.num_blocks}`} formula="pool − held − cached" />
    </dl>
    <${Formula} header=${header} />
  </section>`;
}

function Figure({ kind, name, bytes, note, formula }) {
  return html`<div class=${`figure ${kind}`}>
    <dt><i class=${`key ${kind}`}></i>${name}</dt>
    <dd class="figure-bytes" tabindex="0" ...${tips(() => [t("memory.exact", { n: grouped(bytes) })])}>${bytesText(bytes)}</dd>
    <dd class="figure-note">${note}</dd>
    <dd><${Fidelity} kind="derived" formula=${formula} /></dd>
  </div>`;
}

/** 2 · L · Hkv · D · bytes, with the numbers of this model; (D + Dv) where values are of another width. */
function Formula({ header }) {
  const k = kvTerms(header);
  const same = k.head_dim === k.v_head_dim;
  const times = html`<mo>·</mo>`;
  const symbol = (text, sub) => (sub ? html`<msub><mi>${text}</mi><mi>${sub}</mi></msub>` : html`<mi>${text}</mi>`);
  const width = (d, dv) => (same ? d : html`<mrow><mo>(</mo>${d}<mo>+</mo>${dv}<mo>)</mo></mrow>`);
  const number = (n) => html`<mn>${grouped(n)}</mn>`;
  const two = same ? html`<mn>2</mn>${times}` : null;
  return html`<p class="formula">
    <span class="formula-name">${t("memory.formula")} <${Fidelity} kind="derived" formula=${same ? "2 · L · Hkv · D · bytes" : "L · Hkv · (D + Dv) · bytes"} /></span>
    <math lang="en">
      <mrow>${two}${symbol("L")}${times}${symbol("H", "kv")}${times}${width(symbol("D"), symbol("D", "v"))}${times}<mtext>bytes</mtext></mrow>
    </math>
    <math lang="en">
      <mrow
        ><mo>=</mo>${two}${number(k.num_layers)}${times}${number(k.num_kv_heads)}${times}${width(number(k.head_dim), number(k.v_head_dim))}${times}${number(
          k.element_bytes,
        )}<mo>=</mo>${number(k.bytes_per_token)}<mspace width="0.2em" /><mtext>B</mtext></mrow
      >
    </math>
  </p>`;
}
