// The memory region: free queue, pool, block tables, and figures.

import { t } from "../../i18n/words.js";
import { html } from "../../kit/html.js";
import { lazy, lazyPanel } from "../../kit/lazy.js";
import { Term } from "../../kit/term.js";
import { log, provenance, record, state } from "../../state/store.js";
import { Figures } from "./figures.js";
import { Pool, PoolTitle } from "./pool.js";
import { Overlay } from "./pool_overlay.js";
import { isContiguous } from "./pool_scene.js";
import { Queues } from "./queue.js";
import { Tables } from "./tables.js";

const Region = lazy(
  async () => (await import("./region.js")).Region,
  () => html`<div class="region-map"></div>`,
);

const TierRows = lazyPanel(() => import("./tiers.js"), "memory");
const WireRows = lazyPanel(() => import("./wire.js"), "memory");

export function Panel() {
  const hasSeveralGroups = (state.value?.block_groups.length ?? 0) > 1;
  return html`<section class="region memory" aria-labelledby="memory-title" id="region-memory">
    <h2 id="memory-title" class="visually-hidden">${t("region.memory")}</h2>
    <div class=${hasSeveralGroups ? "memory-map several" : "memory-map"}>
      <${PoolTitle} />
      ${isContiguous.value ? html`<${Region} />` : html`<${Queues} />`}
      <${Pool} />
      <div class="under-pool"><${Legend} /><${TiersSection} /><${WireSection} /></div>
      ${
        provenance.value
          ? html`<a class="to-provenance"
        href="#region-provenance">${t("chain.title")} · ${t(`chain.of.${provenance.value.kind}`)} ↓</a>`
          : null
      }
      <${Tables} />
      <${Overlay} />
    </div>
    <${Figures} />
  </section>`;
}

/** Outer cache tiers, if the run has any; loads lazily. */
function TiersSection() {
  const tiers = (record.value ?? log.value?.records[0])?.tiers;
  if (!tiers?.length) return null;
  return html`<div class="tiers-room" style=${{ "--tiers": tiers.length }}><${TierRows} tiers=${tiers} /></div>`;
}

/** Transfers between instances, if there are several; loads lazily. */
function WireSection() {
  if ((log.value?.header.instances?.length ?? 0) < 2) return null;
  return html`<div class="wire-room"><${WireRows} /></div>`;
}

function Legend() {
  return html`<ul class="legend">
    <li><i class="key used"></i>${t("pool.held")}</li>
    <li><i class="key waste"></i><${Term} id="waste">${t("pool.waste")}<//></li>
    <li><i class="key cached">#</i><${Term} id="block_hash">${t("pool.cached")}<//></li>
    <li><i class="key free"></i>${t("pool.free")}</li>
  </ul>`;
}
