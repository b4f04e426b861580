// The time panel: one chart at a time, the values of the record shown beside it, and ways to keep both.

import { useEffect, useRef, useState } from "../../../vendor/preact/hooks.js";
import { ridge } from "../../core/metrics.js";
import { csvOf } from "../../core/series.js";
import { colours, themeVersion } from "../../kit/colour.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { baseLayout, CONFIG, loadPlotly } from "../../kit/plotly.js";
import { Swatch } from "../../kit/swatch.js";
import { Term } from "../../kit/term.js";
import { hideTip, tipAt, tips } from "../../kit/tooltip.js";
import { roofs, wantRoofs } from "../../net/machine.js";
import { isEmbedded } from "../../state/embedded.js";
import { settings } from "../../state/settings.js";
import { goTo, log, numRecords, shownSeq, viewIndex } from "../../state/store.js";
import { language } from "../../tell/language.js";
import { bytesText, secondsText, t } from "../../tell/words.js";
import { CHARTS, rateText } from "./charts.js";

const REDRAW_MS = 250; // while records stream in

/** What every chart draws from: the log as far as it is here, the record shown, the roofs when they are known. */
function lookedAt() {
  numRecords.value; // the log grows in place
  const index = viewIndex.value;
  return {
    log: log.value,
    index,
    record: log.value?.records[index] ?? null,
    roofs: typeof roofs.value === "object" ? roofs.value : null,
  };
}

export function Panel() {
  const name = settings.chart.value;
  const chart = CHARTS[name];
  const at = lookedAt();
  const rows = at.log ? chart.rows(at) : [];
  useEffect(() => (name === "roofline" ? wantRoofs() : undefined), [name]);
  return html`<div class="time" data-chart=${name}>
    <div class="chart-rail" role="group" aria-label=${t("time.choose")}>
      ${Object.keys(CHARTS).map(
        (key) =>
          html`<button class="chart-choice" id=${`chart-${key}`} aria-pressed=${key === name}
            onClick=${() => (settings.chart.value = key)}>${t(`time.${key}`)}</button>`,
      )}
      ${isEmbedded ? null : html`<a class="chart-choice" href="/bench">${t("header.bench")}</a>`}
      <${Downloads} name=${name} at=${at} rows=${rows} />
    </div>
    <${Plot} key=${name} name=${name} at=${at} rows=${rows} />
    <aside class="chart-aside">${
      name === "sequences"
        ? html`<${Latencies} rows=${rows} />`
        : html`<${Values}
      name=${name} at=${at} rows=${rows} />`
    }</aside>
  </div>`;
}

// ── The plot ─────────────────────────────────────────────────────────────────────────────────────────────────────────

function Plot({ name, at, rows }) {
  const box = useRef(null);
  const plot = useRef(null);
  const [plotly, setPlotly] = useState(null);
  const [size, setSize] = useState(null);
  const latest = useRef(null);
  const timer = useRef(null);
  const drawn = useRef(0);
  latest.current = { at, rows, size, plotly }; // a drawing that was put off draws what is true then
  const present = rows.length > 0;
  useEffect(() => {
    if (!present) return;
    loadPlotly().then(
      (loaded) => setPlotly(() => ({ loaded })),
      () => setPlotly("failed"),
    );
  }, [present]);
  useEffect(() => {
    const sizes = new ResizeObserver(([entry]) =>
      setSize({ width: Math.floor(entry.contentRect.width), height: Math.floor(entry.contentRect.height) }),
    );
    sizes.observe(box.current);
    const element = plot.current;
    return () => {
      sizes.disconnect();
      clearTimeout(timer.current);
      if (element.data) globalThis.Plotly.purge(element);
    };
  }, []);
  const draw = () => {
    timer.current = null;
    drawn.current = performance.now();
    const now = latest.current;
    if (!plot.current || !now.rows.length) return;
    const { data, layout } = CHARTS[name].figure(now.at, now.rows);
    const fresh = !plot.current.data;
    now.plotly.loaded.react(
      plot.current,
      data,
      { ...baseLayout(now.size.width, now.size.height), uirevision: name, ...layout },
      CONFIG,
    );
    if (fresh) listen(plot.current, name, latest);
    document.documentElement.dataset.chart = `${name}/${now.at.index}/${now.at.log.length}`; // tests: what is drawn
  };
  useEffect(() => {
    if (!plotly?.loaded || !size?.width || !present) return;
    if (timer.current === null)
      timer.current = setTimeout(draw, Math.max(0, REDRAW_MS - (performance.now() - drawn.current)));
  }, [plotly, size, present, at.index, at.log?.length, at.roofs, themeVersion.value, language.value]);
  const hint = !present
    ? `time.empty.${name}`
    : plotly === "failed"
      ? isEmbedded
        ? "time.embedded"
        : "time.failed"
      : !plotly
        ? "time.loading"
        : null;
  return html`<div class="chart" ref=${box} role="img" aria-label=${describe(name, at, rows)}
    aria-busy=${present && !plotly}>
    <div class="chart-plot" ref=${plot} hidden=${!present}></div>
    ${hint ? html`<p class="hint">${t(hint)}</p>` : null}
  </div>`;
}

function listen(element, name, latest) {
  element.on("plotly_hover", ({ event, points }) =>
    tipAt(event.clientX, event.clientY, tipOf(name, latest.current, points[0])),
  );
  element.on("plotly_unhover", hideTip);
  element.on("plotly_click", ({ points: [point] }) => {
    if (Array.isArray(point.customdata)) settings.seq.value = point.customdata[0];
    else if (point.customdata !== undefined) goTo(point.customdata);
  });
}

/** Exact values of what is pointed at. */
function tipOf(name, { at, rows }, { customdata, data }) {
  if (Array.isArray(customdata)) {
    const [id, token, seconds] = customdata;
    const who = t("sequence.name", { id });
    const row = rows.find((r) => r.seq === id);
    if (token !== undefined)
      return [t("time.itl_tip", { name: who, time: secondsText(seconds), from: token, to: token + 1 })];
    return [
      who,
      ...["queue", "ttft", "tpot", "itl_max"].map((key) => `${t(`time.${key}`)} ${secondsText(row[key])}`),
      data.name === t("time.queue") ? t("time.queue_tip") : null,
    ];
  }
  const record = at.log.records[customdata];
  const values = CHARTS[name].values({ ...at, index: customdata, record }, rows);
  return [
    t("time.record", { record: customdata + 1, step: record.step }),
    ...values.map(([, label, text, exact]) => `${label}: ${text}${exact ? ` (${exact})` : ""}`),
  ];
}

/** The chart in words: its name and the values of the record shown. */
function describe(name, at, rows) {
  const values = CHARTS[name].values?.(at, rows) ?? [];
  return [t(`time.${name}`), ...values.map(([, label, text]) => `${label} ${text}`)].join("; ");
}

// ── Beside it ────────────────────────────────────────────────────────────────────────────────────────────────────────

function Title({ name, children }) {
  const { fidelity, formula = "" } = CHARTS[name];
  return html`<h3 class="panel-title num">${children} <${Fidelity} kind=${fidelity} formula=${formula} /></h3>`;
}

function Values({ name, at, rows }) {
  const values = rows.length ? CHARTS[name].values(at, rows) : [];
  return html`<div>
    <${Title} name=${name}>${
      at.record ? t("time.record", { record: at.index + 1, step: at.record.step }) : t(`time.${name}`)
    }<//>
    ${rows.length && !values.length ? html`<p class="hint">${t("time.nothing")}</p>` : null}
    <dl class="chart-values num">
      ${values.map(
        ([key, label, text, exact]) => html`<dt class=${key === "total" ? "total" : ""}>${
          key && key !== "total" && key !== "held"
            ? html`<i
          class=${`chart-key ${key}`}></i>`
            : null
        }${label}</dt>
          <dd class=${key === "total" ? "total" : ""}
            ...${exact ? { tabindex: 0, ...tips([exact]) } : {}}>${text}</dd>`,
      )}
    </dl>
    ${name === "roofline" && rows.length ? html`<${Roofs} />` : null}
  </div>`;
}

/** How the roofs were measured, or why there are none. */
function Roofs() {
  const known = roofs.value;
  if (typeof known === "string") return html`<p class="chart-note">${t(`time.roof.${known}`)}</p>`;
  const machine = log.value.header.machine;
  return html`<p class="chart-note num">
    ${t("time.roof.peak_how", {
      value: rateText(known.flops_per_second),
      n: known.matmul_size,
      dtype: known.dtype,
      runs: known.matmul_runs,
    })}${" "}
    ${t("time.roof.bandwidth_how", {
      value: rateText(known.bytes_per_second),
      bytes: bytesText(known.copy_bytes),
      runs: known.copy_runs,
    })}${" "}
    ${t("time.roof.when", {
      date: known.measured_at.slice(0, 10),
      device: machine.processor && machine.device === "cpu" ? machine.processor : machine.device,
      threads: known.num_threads,
      ridge: ridge(known).toPrecision(3),
    })}${" "}
    ${t("time.roof.cache_note")}
  </p>`;
}

const COLUMNS = ["tokens", "queue", "ttft", "tpot", "itl_max"];
const WIDE = new Set(["queue", "itl_max"]); // shown where there is room; the points say them too

/** Latencies of every sequence; the table is also the legend of the points. */
function Latencies({ rows }) {
  const keys = { queue: "queue", ttft: "ttft", tpot: "tpot", itl_max: "itl" };
  const head = (column) =>
    column === "ttft" || column === "tpot"
      ? html`<${Term} id=${column}>${t(`time.${column}`)}<//>`
      : t(`time.${column}`);
  return html`<div>
    <table class="latency-table num">
      <thead>
        <tr>
          <th scope="col">${t("time.sequence")} <${Fidelity} kind="derived" formula=${CHARTS.sequences.formula} /></th>
          ${COLUMNS.map(
            (column) => html`<th scope="col"
            class=${WIDE.has(column) ? "wide" : ""}>${
              keys[column]
                ? html`<i
            class=${`chart-key inline ${keys[column]}`}></i>`
                : null
            } ${head(column)}</th>`,
          )}
        </tr>
      </thead>
      <tbody>
        ${rows.map(
          (row) => html`<tr key=${row.seq} class=${row.seq === shownSeq.value ? "shown" : ""}>
            <td><button aria-label=${t("sequence.show", { name: t("sequence.name", { id: row.seq }) })}
              onClick=${() => (settings.seq.value = row.seq)}><${Swatch} id=${row.seq} />${row.seq}</button></td>
            <td>${row.tokens}</td>
            ${COLUMNS.slice(1).map(
              (column) => html`<td
              class=${WIDE.has(column) ? "wide" : ""}>${secondsText(row[column])}</td>`,
            )}
          </tr>`,
        )}
      </tbody>
    </table>
    <p class="chart-note">${t("time.engine_time")}</p>
  </div>`;
}

// ── To keep ──────────────────────────────────────────────────────────────────────────────────────────────────────────

const IMAGE = { width: 1200, height: 675 };

function Downloads({ name, at, rows }) {
  const file = `${CHARTS[name].csv}-${(at.log?.header.created ?? "").slice(0, 10)}`;
  const picture = async (format) => {
    const plotly = await loadPlotly();
    const { data, layout } = CHARTS[name].figure(at, rows);
    const palette = colours();
    const title = { text: t(`time.${name}`), x: 0.02, font: { size: 18, color: palette.ink } };
    const look = {
      ...baseLayout(IMAGE.width, IMAGE.height),
      margin: { l: 76, r: 24, t: 56, b: 60 },
      paper_bgcolor: palette.paper,
      plot_bgcolor: palette.paper,
      showlegend: true,
      title,
      legend: { orientation: "h", x: 1, xanchor: "right", y: 1.02, yanchor: "bottom" },
    };
    await plotly.downloadImage(
      { data, layout: { ...look, ...layout, shapes: [], font: { ...look.font, size: 15 } } },
      { format, filename: file, ...IMAGE, scale: format === "png" ? 2 : 1 },
    );
  };
  const button = (format, action) =>
    html`<button class="link" disabled=${!rows.length} aria-label=${t("time.download_as", { format })}
      title=${t("time.download_as", { format })} onClick=${action}>${format}</button>`;
  return html`<div
    class="chart-downloads">${
      isEmbedded ? null : [button("PNG", () => picture("png")), button("SVG", () => picture("svg"))]
    }${button("CSV", () => save(csvOf(rows), `${file}.csv`))}</div>`;
}

function save(text, name) {
  const link = Object.assign(document.createElement("a"), {
    href: URL.createObjectURL(new Blob([text], { type: "text/csv" })),
    download: name,
  });
  link.click();
  URL.revokeObjectURL(link.href);
}
