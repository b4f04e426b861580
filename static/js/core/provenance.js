// The provenance chain: from whatever is selected to everything that it hangs together with, as plain values from the log. Pure.
//
// A selection is one of
//   {position, seq?}         the key and value of a position (of the shown sequence)
//   {query, position, seq?}  the weight with which a query read that key
//   {block, offset?}         a block of the pool, or one slot of it
//   {seq}                    a sequence
//   {record, op}             a decision: an operation of a record, by its place in `ops`
//   {figure}                 a byte figure: used, held, waste, cached, free, contiguous, token
// A link is `{kind, fidelity, …values}`; `go` names a record to look at, `select` another selection, `layers` those whose block
// group it is about, where a run has several.

import { visibleKeys } from "./attention.js";
import { counterfactual } from "./counterfactual.js";
import { allocationReason, evictionBefore, freeReason } from "./decisions.js";
import { figuresByGroup, groupOf, groupOfLayer, heldBy, heldIn, RELEASED } from "./groups.js";
import { blockHistory, blocksOf, sequenceHistory } from "./history.js";
import { tokenLabels } from "./labels.js";
import { kvTerms, slotOf } from "./metrics.js";
import { operationsOf } from "./operations.js";
import { attentionRow } from "./sequence_view.js";
import { memoryFigures } from "./state.js";

/**
 * `{kind, links}` of `selection` after record `index`; null when it names nothing there. `view`: {seq, layer, head}, what the
 * stage shows: the sequence that a position belongs to, and where a weight is read.
 */
export function provenanceOf(log, index, selection, view = {}) {
  if (!selection || index < 0 || index >= log.length) return null;
  const at = { log, index, state: log.stateAt(index), layer: view.layer ?? 0, head: view.head ?? 0 };
  const seqId = selection.seq ?? view.seq;
  if (selection.position !== undefined) return ofPosition(at, seqId, selection.position, selection.query);
  if (selection.block !== undefined) return ofBlock(at, selection.block, selection.offset ?? null);
  if (selection.figure !== undefined) return ofFigure(at, selection.figure);
  if (selection.record !== undefined) return ofDecision(log, selection.record, selection.op);
  return selection.seq === undefined ? null : ofSequence(at, selection.seq);
}

/**
 * What a selection touches, to light it up everywhere: `{blocks, slots, seqs, position, query}`; `blocks` and `seqs` are sets,
 * `slots` a set of slot numbers.
 */
export function connectedTo(log, index, selection, view = {}) {
  const found = { blocks: new Set(), slots: new Set(), seqs: new Set() };
  const chain = provenanceOf(log, index, selection, view);
  for (const link of chain?.links ?? []) {
    if (link.block !== undefined && LIGHTS.has(link.kind)) found.blocks.add(link.block);
    for (const block of link.blocks ?? []) found.blocks.add(block);
    if (link.slot !== undefined) found.slots.add(link.slot);
    if (link.seq !== undefined && LIGHTS.has(link.kind)) found.seqs.add(link.seq);
    for (const owner of link.owners ?? []) found.seqs.add(owner.seq);
  }
  return found;
}

const LIGHTS = new Set(["key", "slot", "block", "table", "sequence", "operation", "part"]);

// ── A position: query → weight → key → slot → block → table → owners → decision → bytes ──────────────────────────────────

function ofPosition(at, seqId, position, query) {
  const seq = at.state.sequences.get(seqId);
  if (!seq || position >= seq.token_ids.length) return null;
  const entry = at.log.records[at.index].batch?.find((e) => e.seq_id === seqId);
  const filled = entry ? entry.start + entry.token_ids.length : seq.num_computed_tokens;
  const asked = query ?? (entry ? entry.context_len - 1 : null);
  const links = [];
  if (asked !== null) links.push(...weightLinks(at, seq, asked, position));
  const record = at.log.computedIn(seqId, position, at.index);
  links.push({
    kind: "key",
    fidelity: "captured",
    ...token(seq, position),
    layer: at.layer,
    kv_head: kvHead(at),
    ...goTo(record),
  });
  const tables = at.log.tablesAtCompute(at.index, seqId) ?? seq.block_tables;
  const group = groupOfLayer(at.log.groups, at.layer);
  const placeIn = (table) => (position < filled ? slotOf(table, at.state.block_size, position) : null);
  const place = placeIn(tables[group]);
  if (!place) {
    const kept = tables.findIndex((table) => placeIn(table));
    if (kept >= 0 && tables[group][Math.floor(position / at.state.block_size)] === RELEASED)
      links.push(releasedLink(at, group, kept, placeIn(tables[kept])));
    else {
      const sampled = position >= seq.num_prompt_tokens && position === seq.token_ids.length - 1;
      links.push({
        kind: "nowhere",
        fidelity: "captured",
        seq: seqId,
        waits: position >= filled && seq.status !== "finished",
        sampled,
      });
    }
    return { kind: query === undefined ? "key" : "weight", links };
  }
  links.push(slotLink(at, place.block, place.offset, position));
  links.push(blockLink(at, place.block));
  links.push(tableLink(at, seqId, place.logical, place.block, seq.block_tables[group][place.logical] === place.block));
  links.push(...blockLinks(at, place.block, place.offset), bytesLink(at, 1, group));
  return { kind: query === undefined ? "key" : "weight", links };
}

/** The layer's group let the key go, another one keeps it. */
function releasedLink({ log }, group, kept, { block }) {
  const { layers, window, sinks } = log.groups[group];
  return {
    kind: "released",
    fidelity: "captured",
    layers,
    window,
    sinks,
    kept: log.groups[kept].layers,
    block,
    select: { block },
  };
}

/** What a link says of the group that it is about: its layers, where there is more than one group. */
const inGroup = ({ log }, group) => (group >= 0 && log.groups.length > 1 ? { layers: log.groups[group].layers } : {});

function weightLinks(at, seq, query, position) {
  const record = at.log.computedIn(seq.seq_id, query, at.index);
  if (record < 0) return [];
  const row = attentionRow(at.log, record, seq.seq_id, at.layer, at.head, query);
  const value = row && position >= row.keyStart ? (row.weights[position - row.keyStart] ?? null) : null;
  if (query < position && !value) return []; // a later key is no key of this query, unless the capture says that it was read
  const unseen = !value && !visibleKeys(at.log.header, at.layer, query).includes(position);
  const rank = value === null ? null : 1 + row.weights.reduce((more, weight) => more + (weight > value ? 1 : 0), 0);
  return [
    { kind: "query", fidelity: "captured", ...token(seq, query), layer: at.layer, head: at.head, ...goTo(record) },
    {
      kind: "weight",
      fidelity: "captured",
      seq: seq.seq_id,
      query,
      position,
      value,
      unseen,
      rank,
      of: row?.weights.length ?? 0,
      layer: at.layer,
      head: at.head,
    },
  ];
}

const kvHead = ({ log, head }) => Math.floor(head / (log.header.model.num_heads / log.header.model.num_kv_heads));

const token = (seq, position) => ({
  seq: seq.seq_id,
  position,
  label: tokenLabels(seq.token_bytes)[position],
  generated: position >= seq.num_prompt_tokens,
});

const goTo = (record) => (record >= 0 ? { go: record } : {});

// ── A block or a slot ─────────────────────────────────────────────────────────────────────────────────────────────────

function ofBlock(at, block, offset) {
  if (!at.state.blocks[block]) return null;
  const links = [];
  const whole = offset === null;
  if (!whole) links.push(slotLink(at, block, offset, null));
  links.push(blockLink(at, block));
  for (const { seq, logical } of ownersOf(at, block)) links.push(tableLink(at, seq, logical, block, true));
  links.push(
    ...blockLinks(at, block, offset),
    bytesLink(at, whole ? at.state.block_size : 1, groupOf(at.log.groups, block)),
  );
  return { kind: whole ? "block" : "slot", links };
}

function slotLink(at, block, offset, position) {
  const size = at.state.block_size;
  return {
    kind: "slot",
    fidelity: "derived",
    slot: block * size + offset,
    block,
    size,
    offset,
    position,
    select: { block, offset },
  };
}

function tableLink(at, seq, logical, block, held) {
  const { state } = at;
  const from = logical * state.block_size;
  return {
    kind: "table",
    fidelity: "captured",
    ...inGroup(at, groupOf(state.block_groups, block)),
    seq,
    logical,
    block,
    held,
    from,
    to: from + state.block_size - 1,
    select: { seq },
  };
}

function blockLink(at, id) {
  const block = at.state.blocks[id];
  const group = groupOf(at.state.block_groups, id);
  const place = at.state.free_queues[group].indexOf(id) + 1;
  const { ref_count, block_hash: hash, token_ids } = block;
  return {
    kind: "block",
    fidelity: "captured",
    ...inGroup(at, group),
    block: id,
    ref_count,
    hash,
    filled: token_ids.length,
    size: at.state.block_size,
    place: place || null,
    select: { block: id },
  };
}

/** Sequences whose table has the block, and where: [{seq, logical}]. */
export function ownersOf({ state }, block) {
  const found = [];
  const group = groupOf(state.block_groups, block);
  for (const seq of state.sequences.values()) {
    const logical = seq.block_tables[group].indexOf(block);
    if (logical >= 0) found.push({ seq: seq.seq_id, logical });
  }
  return found;
}

/** What the log tells of a block: who holds it and since when, who wrote it, which decision took it, what became of it. */
function blockLinks(at, block, offset) {
  const events = blockHistory(at.log, block, at.index);
  const began = events.findLastIndex((e) => e.op.type === "allocate");
  const life = events.slice(Math.max(began, 0)); // since the last allocation
  const links = [];
  const owners = ownersOf(at, block).map((owner) => ({ ...owner, ...joined(life, owner.seq) }));
  if (owners.length)
    links.push({ kind: "owners", fidelity: "captured", owners, ref_count: at.state.blocks[block].ref_count, block });
  const origin =
    offset === null || offset >= at.state.blocks[block].token_ids.length
      ? null
      : at.log.slotOrigin(block * at.state.block_size + offset, at.index);
  if (origin) {
    const writer = at.state.sequences.get(origin.seq_id);
    links.push({
      kind: "written",
      fidelity: "captured",
      ...token(writer, origin.position),
      holds: owners.some((o) => o.seq === origin.seq_id),
      copied: origin.at !== origin.record,
      ...goTo(origin.record),
    });
  }
  if (began >= 0) links.push(decisionLink(at.log, events[began].record, events[began].at));
  const cached = life.findLast((e) => e.op.type === "cache");
  if (cached && at.state.blocks[block].block_hash)
    links.push({
      kind: "cached",
      fidelity: "captured",
      hash: cached.op.block_hash,
      parent: cached.op.parent_hash,
      seq: cached.op.seq_id,
      ...goTo(cached.record),
    });
  links.push(...fateLinks(at, block, events, began));
  links.push({
    kind: "life",
    fidelity: "captured",
    events: events.map(({ record, at: place, op, from, to }) => ({
      record,
      at: place,
      type: op.type,
      seq: op.seq_id,
      from,
      to,
    })),
  });
  return links;
}

/** How a sequence came to hold the block: {how, go}. */
function joined(life, seq) {
  const event = life.findLast((e) => e.op.seq_id === seq && ["allocate", "share", "fork"].includes(e.op.type));
  return event ? { how: event.op.type, go: event.record, at: event.at } : {};
}

const GIVES = new Set(["free", "release"]);

/** Freed, evicted, or held by others before: what happened around the life that the block has now. */
function fateLinks(at, block, events, began) {
  const links = [];
  const held = at.state.blocks[block].ref_count > 0;
  const freed = events.findLast((e) => GIVES.has(e.op.type));
  if (!held && freed)
    links.push({
      kind: "freed",
      fidelity: "captured",
      seq: freed.op.seq_id,
      to: freed.op.to ?? null,
      why: freeReason(at.log.records[freed.record], freed.at),
      ...goTo(freed.record),
      select: { record: freed.record, op: freed.at },
    });
  const evicted = events.findLast((e) => e.op.type === "evict");
  if (evicted)
    links.push({
      kind: "evicted",
      fidelity: "captured",
      hash: evicted.op.block_hash,
      block,
      ...goTo(evicted.record),
      select: { record: evicted.record, op: evicted.at },
    });
  const before = began > 0 ? events.slice(0, began).findLast((e) => e.op.type === "allocate") : null;
  if (before)
    links.push({ kind: "earlier", fidelity: "captured", seq: before.op.seq_id, block, ...goTo(before.record) });
  return links;
}

/** Bytes of `slots` slots: of a block group, or of all layers. */
function bytesLink(at, slots, group = -1) {
  const terms = kvTerms(at.log.header, at.log.groups.length > 1 ? at.log.groups[group] : null);
  return {
    kind: "bytes",
    fidelity: "derived",
    slots,
    ...terms,
    per_layer: (terms.bytes_per_token / terms.num_layers) * slots,
    bytes: terms.bytes_per_token * slots,
    select: { figure: "token" },
  };
}

// ── A decision ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** The allocation that gave a block to its sequence: who asked, for which request, and why. */
function decisionLink(log, record, at) {
  const op = log.records[record].ops[at];
  const seq = log.stateAt(record).sequences.get(op.seq_id);
  const evicted = evictionBefore(log.records[record], at);
  return {
    kind: "decision",
    fidelity: "captured",
    ...inGroup({ log }, groupOf(log.groups, op.block_id)),
    seq: op.seq_id,
    request_id: seq.request_id,
    logical: op.logical,
    block: op.block_id,
    ...allocationReason(log.header, log.records[record], at),
    evicted: evicted?.op.block_hash ?? null,
    go: record,
    select: { record, op: at },
  };
}

function ofDecision(log, record, place) {
  const op = log.records[record]?.ops?.[place];
  if (!op) return null;
  const at = { log, index: record, state: log.stateAt(record) };
  const ops = log.records[record].ops;
  const group = op.block_id === undefined ? -1 : groupOf(log.groups, op.block_id);
  const inSame = (other) => group < 0 || groupOf(log.groups, other.block_id) === group;
  const alike = ops.filter((other) => other.type === op.type && other.seq_id === op.seq_id && inSame(other)); // one decision, block by block
  const told = operationsOf(log, record).findLast(
    (entry) => entry.type === op.type && entry.at <= place && (group < 0 || entry.group === group),
  );
  const links = [
    {
      kind: "operation",
      fidelity: "captured",
      op,
      at: place,
      of: ops.length,
      told: told?.lines ?? [],
      blocks: alike.flatMap((other) => blocksOf(other)),
      seq: op.seq_id,
      go: record,
    },
  ];
  const seq = at.state.sequences.get(op.seq_id);
  if (op.type === "allocate") links.push(decisionLink(log, record, place));
  if (GIVES.has(op.type))
    links.push({
      kind: "given",
      fidelity: "captured",
      seq: op.seq_id,
      why: freeReason(log.records[record], place),
      go: record,
    });
  if (op.type === "evict") {
    const taken = log.records[record].ops.findIndex(
      (o, i) => i > place && o.type === "allocate" && o.block_id === op.block_id,
    );
    if (taken >= 0) links.push(decisionLink(log, record, taken));
    const cached = blockHistory(log, op.block_id, record).findLast(
      (e) => e.op.type === "cache" && same(e.op.block_hash, op.block_hash),
    );
    if (cached)
      links.push({
        kind: "cached",
        fidelity: "captured",
        hash: op.block_hash,
        parent: cached.op.parent_hash,
        seq: cached.op.seq_id,
        ...goTo(cached.record),
      });
  }
  if (seq) links.push(requestLink(seq));
  for (const block of [...new Set(blocksOf(op))].slice(0, 8)) links.push(blockLink(at, block));
  links.push(bytesLink(at, at.state.block_size, group));
  return { kind: "decision", links };
}

const same = (a, b) => a.length === b.length && a.every((byte, i) => byte === b[i]);

function requestLink(seq) {
  const { seq_id, request_id, num_prompt_tokens, max_tokens, submitted_in } = seq;
  return {
    kind: "request",
    fidelity: "captured",
    seq: seq_id,
    request_id,
    num_prompt_tokens,
    max_tokens,
    select: { seq: seq_id },
    go: submitted_in,
  };
}

// ── A sequence ────────────────────────────────────────────────────────────────────────────────────────────────────────

const TURNS = new Set(["submit", "admit", "preempt", "fork", "finish"]);

function ofSequence(at, id) {
  const seq = at.state.sequences.get(id);
  if (!seq) return null;
  const links = [
    {
      kind: "sequence",
      fidelity: "captured",
      seq: id,
      status: seq.status,
      num_tokens: seq.token_ids.length,
      num_computed_tokens: seq.num_computed_tokens,
    },
    requestLink(seq),
  ];
  const events = sequenceHistory(at.log, id, at.index);
  const lookup = events.findLast((e) => e.op.type === "lookup" && e.op.seq_id === id);
  if (lookup)
    links.push({
      kind: "lookup",
      fidelity: "captured",
      ...lookup.op,
      ...goTo(lookup.record),
      select: { record: lookup.record, op: lookup.at },
    });
  const shared = heldBy(seq).filter((block) => at.state.blocks[block].ref_count > 1);
  seq.block_tables.forEach((table, group) => {
    const held = heldIn(table);
    links.push({
      kind: "blocks",
      fidelity: "captured",
      ...inGroup(at, group),
      seq: id,
      blocks: held,
      shared: shared.filter((block) => held.includes(block)),
    });
    links.push(bytesLink(at, held.length * at.state.block_size, group));
  });
  links.push({
    kind: "life",
    fidelity: "captured",
    events: events
      .filter((e) => TURNS.has(e.op.type))
      .map(({ record, at: place, op }) => ({ record, at: place, type: op.type, seq: op.seq_id })),
  });
  return { kind: "sequence", links };
}

// ── A byte figure ─────────────────────────────────────────────────────────────────────────────────────────────────────

const FIGURES = new Set(["used", "held", "waste", "cached", "free", "contiguous", "token"]);

function ofFigure(at, name) {
  if (!FIGURES.has(name)) return null;
  const { header } = at.log;
  const perToken = header.kv_bytes_per_token;
  if (name === "token") return { kind: "figure", links: [bytesLink(at, 1)] };
  if (name === "contiguous") {
    const other = counterfactual(header, at.state);
    if (!other) return null;
    return {
      kind: "figure",
      links: [
        { kind: "contiguous", fidelity: "derived", ...other, per_token: perToken, groups: at.log.groups.length },
        bytesLink(at, 1),
      ],
    };
  }
  const m = memoryFigures(at.state);
  const size = m.block_size;
  const terms = slotsByGroup(at, name);
  const sum = (field) => terms.reduce((total, term) => total + term[field], 0);
  const chosen = at.state.blocks.filter((b) => MEMBERS[name](b, size)).map((b) => b.block_id);
  const links = [
    {
      kind: "figure",
      fidelity: "derived",
      name,
      slots: sum("slots"),
      per_token: perToken,
      bytes: sum("bytes"),
      terms,
      ...m,
      blocks: chosen,
    },
  ];
  if (name === "used" || name === "held" || name === "waste") links.push(...parts(at, name));
  links.push(bytesLink(at, 1));
  return { kind: "figure", links };
}

/** The slots that a figure counts in each block group: [{slots, per_token, bytes, layers}]. */
function slotsByGroup(at, name) {
  const size = at.state.block_size;
  return figuresByGroup(at.state).map(({ blocks_held: held, blocks_cached: cached, tokens_held: tokens }, group) => {
    const { num_blocks, kv_bytes_per_token: per_token, layers } = at.log.groups[group];
    const slots = {
      used: tokens,
      held: held * size,
      waste: held * size - tokens,
      cached: cached * size,
      free: (num_blocks - held - cached) * size,
    }[name];
    return { slots, per_token, bytes: slots * per_token, layers };
  });
}

const MEMBERS = {
  used: (b) => b.ref_count > 0,
  held: (b) => b.ref_count > 0,
  waste: (b, size) => b.ref_count > 0 && b.token_ids.length < size,
  cached: (b) => b.ref_count === 0 && b.block_hash !== null,
  free: (b) => b.ref_count === 0 && b.block_hash === null,
};

/** What each sequence contributes in each block group; a shared block is counted with the first sequence that holds it, so that the parts add up. */
function parts(at, name) {
  const counted = new Set();
  const size = at.state.block_size;
  const links = [];
  for (const seq of at.state.sequences.values())
    seq.block_tables.forEach((table, group) => {
      const own = heldIn(table).filter((block) => !counted.has(block));
      own.forEach((block) => counted.add(block));
      if (!own.length) return;
      const filled = own.reduce((sum, block) => sum + at.state.blocks[block].token_ids.length, 0);
      const slots = name === "used" ? filled : name === "held" ? own.length * size : own.length * size - filled;
      const { kv_bytes_per_token: perToken } = at.log.groups[group];
      links.push({
        kind: "part",
        fidelity: "derived",
        ...inGroup(at, group),
        seq: seq.seq_id,
        slots,
        per_token: perToken,
        bytes: slots * perToken,
        num_blocks: own.length,
        select: { seq: seq.seq_id },
      });
    });
  return links;
}
