// Chart of the shown records: drawn by Plotly once it is loaded, with the page's tooltip and a download as a picture.

import { useEffect, useRef, useState } from "../../vendor/preact/hooks.js";
import { language } from "../i18n/language.js";
import { inLanguage, t } from "../i18n/words.js";
import { themeVersion } from "../kit/colour.js";
import { html } from "../kit/html.js";
import { CONFIG, loadPlotly } from "../kit/plotly.js";
import { hideTip, tipAt } from "../kit/tooltip.js";
import { figure, picture } from "./figure.js";
import { axisPoints, curves, pointAt, variantTitle } from "./record.js";
import { stepOf, traceAddress } from "./store.js";
import { atText, estimateText, measureOf, numberText, quantityText } from "./words.js";

/** @import {Plotly} from "../kit/plotly.js" */
/** @import {Shown} from "./store.js" */

const HEIGHT = 320;
const SHEET = 640; // px: width of A4 between its margins
const PICTURE = { width: 1200, height: 720 };

/**
 * Content and width of a chart. `labels`: names of the records, by id.
 * @typedef {import("./figure.js").Curves & {all: Shown[], labels: Map<string, string>, width: number}} Drawn
 *
 * Element that Plotly draws in. Plotly adds the data and `on` to it.
 * @typedef {HTMLElement & {data?: unknown, on: (event: string, handler: (event: Pointed) => void) => void}} Plot
 * @typedef {[variant: string, at: string | number, record: number]} Place of a point; `record`: index in the charts'
 * records
 * @typedef {{event: MouseEvent, points: {customdata: Place}[]}} Pointed
 */

/**
 * `where`: lines on a saved picture that say where the records were measured.
 * @typedef {Pick<Drawn, "all" | "labels" | "metric" | "against" | "most"> & {where: string[]}} Props
 * @param {Props} props
 */
export function Chart({ all, labels, metric, against, most, where }) {
  const records = all.map(({ record }) => record);
  const record = records.find(({ metrics }) => metrics[metric]) ?? records[0];
  const ids = all.map(({ id }) => id).join(" ");
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const plot = useRef(/** @type {Plot | null} */ (null));
  const [plotly, setPlotly] = useState(/** @type {{loaded: Plotly} | "failed" | null} */ (null));
  const [width, setWidth] = useState(0);
  const now = { all, labels, records, metric, against, most, width };
  const latest = useRef(now);
  latest.current = now;
  const loaded = plotly !== null && plotly !== "failed" ? plotly.loaded : null;
  useEffect(() => {
    const [element, drawn] = [box.current, plot.current];
    if (!element || !drawn) return undefined;
    loadPlotly().then(
      (loaded) => setPlotly({ loaded }),
      () => setPlotly("failed"),
    );
    const sizes = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)));
    sizes.observe(element);
    return () => {
      sizes.disconnect();
      hideTip();
      if (drawn.data) loadPlotly().then(({ purge }) => purge(drawn));
    };
  }, []);
  const empty = !records.some((one) => curves(one, metric, against).length);
  const onPaper = useRef(false);
  const draw = () => {
    const wide = onPaper.current ? SHEET : latest.current.width;
    const { data, layout } = figure({ ...latest.current, width: wide, height: HEIGHT });
    if (loaded && plot.current) loaded.react(plot.current, data, layout, CONFIG);
  };
  useEffect(() => {
    if (!loaded || empty) return undefined;
    const onPrint = (/** @type {Event} */ { type }) => {
      onPaper.current = type === "beforeprint";
      draw(); // immediately, for printing
    };
    for (const type of ["beforeprint", "afterprint"]) addEventListener(type, onPrint);
    return () => ["beforeprint", "afterprint"].forEach((type) => removeEventListener(type, onPrint));
  }, [plotly, empty]);
  useEffect(() => {
    if (!loaded || !width || empty || !plot.current || !box.current) return;
    const isFirst = !plot.current.data;
    draw();
    if (isFirst) listen(plot.current, latest);
    box.current.dataset.drawn = `${ids}/${metric}/${against ?? ""}`; // read by tests
  }, [plotly, width, empty, ids, metric, against, most, themeVersion.value, language.value]);
  const hint = empty
    ? "bench.chart.empty"
    : plotly === "failed"
      ? "bench.chart.failed"
      : plotly
        ? null
        : "bench.chart.loading";
  const title = inLanguage(record.metrics[metric]?.title ?? { en: metric, zh: metric });
  const ratio = against === null ? null : t("bench.ratio", { baseline: variantTitle(record, against) });
  const save = async () => {
    const { downloadImage } = await loadPlotly();
    const subtitle = ratio === null ? title : `${title}: ${ratio}`;
    const { data, layout } = picture({ ...now, ...PICTURE }, inLanguage(record.scenario.title), subtitle, where);
    await downloadImage(
      { data, layout },
      {
        format: "png",
        filename: `${record.scenario.id}-${metric}${against === null ? "" : `-against-${against}`}`,
        ...PICTURE,
        scale: 2,
      },
    );
  };
  const saving = t("bench.save.png");
  return html`<figure class="bench-figure">
    <figcaption>
      <span>${ratio ?? t("bench.absolute")}</span>
      <button class="link" disabled=${empty} aria-label=${saving} title=${saving} onClick=${save}>PNG</button>
    </figcaption>
    <div
      class="bench-chart chart"
      ref=${box}
      role="img"
      aria-label=${inWords(now, title)}
      aria-busy=${!plotly && !empty}
    >
      <div class="chart-plot" ref=${plot} hidden=${empty}></div>
      ${hint ? html`<p class="hint">${t(hint)}</p>` : null}
    </div>
  </figure>`;
}

/** @param {Plot} element @param {{current: Drawn}} latest */
function listen(element, latest) {
  element.on("plotly_hover", ({ event, points: [{ customdata }] }) =>
    tipAt(event.clientX, event.clientY, tipLines(latest.current, customdata)),
  );
  element.on("plotly_unhover", hideTip);
  element.on("plotly_click", ({ points: [{ customdata }] }) => {
    const [variant, at, place] = customdata;
    const { all, metric } = latest.current;
    const point = pointAt(all[place].record, at, variant);
    const address = point && traceAddress(all[place].entry, point, metric);
    if (address) location.assign(address);
  });
}

/** Return the tooltip of a point. @param {Drawn} drawn @param {Place} place */
function tipLines({ all, labels, metric, most }, [variant, at, place]) {
  const shown = all[place];
  if (!shown) return []; // other records are shown by now
  const { record } = shown;
  const point = pointAt(record, at, variant);
  const where = axisPoints(record).find((one) => one.at === at);
  const figureOf = point?.figures[metric];
  if (!where || !figureOf) return [];
  const info = record.metrics[metric];
  const measure = measureOf(info.unit, most > 0 ? figureOf.median : 0);
  return [
    html`<b>${variantTitle(record, variant)}</b>`,
    all.length > 1 && labels.get(shown.id),
    `${inLanguage(record.scenario.axis.title)}: ${atText(where)}`,
    t("bench.tip.value", { metric: inLanguage(info.title), value: quantityText(figureOf.median, info.unit, measure) }),
    figureOf.low === figureOf.high
      ? record.rounds > 1 && t("bench.tip.exact")
      : t("bench.tip.interval", {
          low: quantityText(figureOf.low, info.unit, measure),
          high: quantityText(figureOf.high, info.unit, measure),
        }),
    t("bench.tip.rounds", { n: record.rounds }),
    ...Object.entries(figureOf.ratios)
      .filter(([baseline]) => baseline !== variant)
      .map(([baseline, ratio]) =>
        t("bench.tip.ratio", {
          baseline: variantTitle(record, baseline),
          value: `${numberText(ratio.median)}×`,
          low: numberText(ratio.low),
          high: numberText(ratio.high),
        }),
      ),
    point.tokens_identical === false && t("bench.tip.differs"),
    traceAddress(shown.entry, point) &&
      (stepOf(point, metric) === null
        ? t("bench.tip.trace")
        : t("bench.tip.trace_step", { step: stepOf(point, metric) })),
  ];
}

/**
 * Return a description of the chart for screen readers. The table has all details.
 * @param {Drawn} drawn
 * @param {string} title title of the metric
 */
function inWords({ all, labels, metric, against, most }, title) {
  const lines = all.flatMap(({ id, record }) => {
    const unit = against === null ? (record.metrics[metric]?.unit ?? "") : "×";
    const measure = measureOf(unit, most);
    const titles = new Map(axisPoints(record).map((one) => [one.at, atText(one)]));
    const suffix = all.length > 1 ? `, ${labels.get(id)}` : "";
    return curves(record, metric, against).map(({ variant, points }) =>
      t("bench.chart.line", {
        variant: `${inLanguage(variant.title)}${suffix}`,
        values: points.map((p) => `${titles.get(p.at) ?? p.at}: ${estimateText(p, unit, measure)}`).join(", "),
      }),
    );
  });
  const scenario = inLanguage(all[0].record.scenario.title);
  return t("bench.chart.of", { metric: title, scenario, lines: lines.join("; ") });
}
