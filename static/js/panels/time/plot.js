// The chart: Plotly's figure in the page, tooltips of its points, and click actions.

import { useEffect, useRef, useState } from "../../../vendor/preact/hooks.js";
import { language } from "../../i18n/language.js";
import { secondsText, t } from "../../i18n/words.js";
import { themeVersion } from "../../kit/colour.js";
import { html } from "../../kit/html.js";
import { baseLayout, CONFIG, loadPlotly } from "../../kit/plotly.js";
import { hideTip, tipAt } from "../../kit/tooltip.js";
import { settings } from "../../state/settings.js";
import { goTo } from "../../state/store.js";
import { isEmbedded } from "../../state/without_server.js";
import { CHARTS } from "./charts.js";

/** @import {ChartInputs, ChartName} from "./charts.js" */
/** @import {Plotly} from "../../kit/plotly.js" */

/**
 * @typedef {{data: {name: string}, customdata: any}} Point as passed by Plotly; `customdata` comes from the figure
 * @typedef {{event: PointerEvent, points: Point[]}} PlotEvent
 * @typedef {(event: string, listener: (what: PlotEvent) => void) => void} Listen
 * @typedef {HTMLElement & {data?: object[], on: Listen}} PlotElement
 * @typedef {{loaded: Plotly} | "failed" | null} Loading
 * @typedef {{at: ChartInputs, rows: any[], size: {width: number, height: number} | null, plotly: Loading}} PlotState
 */

const REDRAW_MS = 250; // between redraws while records arrive

/** @param {{name: ChartName, at: ChartInputs, rows: any[]}} props */
export function Plot({ name, at, rows }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const plot = useRef(/** @type {PlotElement | null} */ (null));
  const [plotly, setPlotly] = useState(/** @type {Loading} */ (null));
  const [size, setSize] = useState(/** @type {PlotState["size"]} */ (null));
  const latest = useRef(/** @type {PlotState} */ ({ at, rows, size, plotly }));
  const timer = useRef(/** @type {ReturnType<typeof setTimeout> | null} */ (null));
  const drawnAt = useRef(0);
  latest.current = { at, rows, size, plotly }; // a delayed drawing uses the latest state
  const hasRows = rows.length > 0;
  useEffect(() => {
    if (!hasRows) return;
    loadPlotly().then(
      (loaded) => setPlotly(() => ({ loaded })),
      () => setPlotly("failed"),
    );
  }, [hasRows]);
  useEffect(() => {
    const sizes = new ResizeObserver(([entry]) =>
      setSize({ width: Math.floor(entry.contentRect.width), height: Math.floor(entry.contentRect.height) }),
    );
    if (box.current) sizes.observe(box.current);
    const element = plot.current;
    return () => {
      sizes.disconnect();
      clearTimeout(timer.current ?? undefined);
      const { plotly: now } = latest.current;
      if (element?.data && now && now !== "failed") now.loaded.purge(element);
    };
  }, []);
  const draw = () => {
    timer.current = null;
    drawnAt.current = performance.now();
    const now = latest.current;
    if (!plot.current || !now.rows.length || !now.size || !now.plotly || now.plotly === "failed") return;
    const { data, layout } = CHARTS[name].figure(now.at, now.rows);
    const isFirst = !plot.current.data;
    const fullLayout = { ...baseLayout(now.size.width, now.size.height), uirevision: name, ...layout };
    now.plotly.loaded.react(plot.current, data, fullLayout, CONFIG);
    if (isFirst) listen(plot.current, name, latest);
    document.documentElement.dataset.chart = `${name}/${now.at.index}/${now.at.log?.length}`; // read by tests
  };
  useEffect(() => {
    if (!plotly || plotly === "failed" || !size?.width || !hasRows) return;
    if (timer.current === null)
      timer.current = setTimeout(draw, Math.max(0, REDRAW_MS - (performance.now() - drawnAt.current)));
  }, [plotly, size, hasRows, at.index, at.log?.length, at.roofs, themeVersion.value, language.value]);
  const hint = !hasRows
    ? `time.empty.${name}`
    : plotly === "failed"
      ? isEmbedded
        ? "time.embedded"
        : "time.failed"
      : !plotly
        ? "time.loading"
        : null;
  return html`<div class="chart" ref=${box} role="img" aria-label=${describe(name, at, rows)}
    aria-busy=${hasRows && !plotly}>
    <div class="chart-plot" ref=${plot} hidden=${!hasRows}></div>
    ${hint ? html`<p class="hint">${t(hint)}</p>` : null}
  </div>`;
}

/** @param {PlotElement} element @param {ChartName} name @param {{current: PlotState}} latest */
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

/** Return the exact values of a point. @param {ChartName} name @param {PlotState} state @param {Point} point */
function tipOf(name, { at, rows }, { customdata, data }) {
  if (Array.isArray(customdata)) {
    const [id, token, seconds] = customdata;
    const seqName = t("sequence.name", { id });
    const row = rows.find((r) => r.seq === id);
    if (token !== undefined)
      return [t("time.itl_tip", { name: seqName, time: secondsText(seconds), from: token, to: token + 1 })];
    return [
      seqName,
      ...["queue", "ttft", "tpot", "itl_max"].map((key) => `${t(`time.${key}`)} ${secondsText(row[key])}`),
      data.name === t("time.queue") ? t("time.queue_tip") : null,
    ];
  }
  const record = at.log?.records[customdata] ?? null;
  const values = CHARTS[name].values?.({ ...at, index: customdata, record }, rows) ?? [];
  return [
    t("time.record", { record: customdata + 1, step: record?.step ?? 0 }),
    ...values.map(([, label, text, exact]) => `${label}: ${text}${exact ? ` (${exact})` : ""}`),
  ];
}

/**
 * Describe the chart: its name and the values of the shown record.
 * @param {ChartName} name @param {ChartInputs} at @param {any[]} rows
 */
function describe(name, at, rows) {
  const values = CHARTS[name].values?.(at, rows) ?? [];
  return [t(`time.${name}`), ...values.map(([, label, text]) => `${label} ${text}`)].join("; ");
}
