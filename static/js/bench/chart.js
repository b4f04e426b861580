// One chart of one record: drawn by Plotly when it is here, told by the page's tooltip, saved as a picture.

import { useEffect, useRef, useState } from "../../vendor/preact/hooks.js";
import { themeVersion } from "../kit/colour.js";
import { html } from "../kit/html.js";
import { CONFIG, loadPlotly } from "../kit/plotly.js";
import { hideTip, tipAt } from "../kit/tooltip.js";
import { language } from "../tell/language.js";
import { inLanguage, t } from "../tell/words.js";
import { figure, picture, styleOf } from "./figure.js";
import { DASHES, HATCHES, SHAPES } from "./marks.js";
import { axisPoints, curves, isCategorical, pointAt, variantTitle } from "./record.js";
import { stepOf, traceAddress } from "./store.js";
import { atText, estimateText, measureOf, numberText, quantityText } from "./words.js";

const HEIGHT = 320;
const SHEET = 640; // px of a sheet's width: A4 between its margins
const PICTURE = { width: 1200, height: 720 };

/**
 * @typedef {import("./record.js").BenchRecord} BenchRecord
 * @typedef {import("./store.js").Shown} Shown
 *
 * What is drawn, and how wide.
 * @typedef {import("./figure.js").Curves & {shown: Shown, width: number}} Drawn
 *
 * The element that Plotly draws in: it has its data then, and `on` for its events.
 * @typedef {HTMLElement & {data?: unknown, on: (event: string, told: (event: Pointed) => void) => void}} Plot
 * @typedef {{event: MouseEvent, points: {customdata: [variant: string, at: string | number]}[]}} Pointed
 * @typedef {import("../kit/plotly.js").Plotly} Plotly
 */

/**
 * `where`: the lines that a saved picture carries.
 * @param {{shown: Shown, metric: string, against?: string | null, most: number, where: string[]}} props
 */
export function Chart({ shown, metric, against = null, most, where }) {
  const { record } = shown;
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const plot = useRef(/** @type {Plot | null} */ (null));
  const [plotly, setPlotly] = useState(/** @type {{loaded: Plotly} | "failed" | null} */ (null));
  const [width, setWidth] = useState(0);
  const now = { shown, record, metric, against, most, width };
  const latest = useRef(now);
  latest.current = now;
  const loaded = plotly !== null && plotly !== "failed" ? plotly.loaded : null;
  useEffect(() => {
    const [element, drawn] = [box.current, plot.current];
    if (!element || !drawn) return undefined;
    loadPlotly().then(
      (come) => setPlotly({ loaded: come }),
      () => setPlotly("failed"),
    );
    const sizes = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)));
    sizes.observe(element);
    return () => {
      sizes.disconnect();
      hideTip();
      if (drawn.data) loadPlotly().then((come) => come.purge(drawn));
    };
  }, []);
  const empty = !curves(record, metric, against).length;
  const onPaper = useRef(false);
  const draw = () => {
    const wide = onPaper.current ? SHEET : latest.current.width;
    const { data, layout } = figure({ ...latest.current, width: wide, height: HEIGHT });
    if (loaded && plot.current) loaded.react(plot.current, data, layout, CONFIG);
  };
  useEffect(() => {
    if (!loaded || empty) return undefined;
    const prints = (/** @type {Event} */ { type }) => {
      onPaper.current = type === "beforeprint";
      draw(); // at once: what is drawn later is not on paper
    };
    for (const type of ["beforeprint", "afterprint"]) addEventListener(type, prints);
    return () => ["beforeprint", "afterprint"].forEach((type) => removeEventListener(type, prints));
  }, [plotly, empty]);
  useEffect(() => {
    if (!loaded || !width || empty || !plot.current || !box.current) return;
    const fresh = !plot.current.data;
    draw();
    if (fresh) listen(plot.current, latest);
    box.current.dataset.drawn = `${shown.id}/${metric}/${against ?? ""}`; // tests: what is drawn
  }, [plotly, width, empty, record, metric, against, most, themeVersion.value, language.value]);
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
    const come = await loadPlotly();
    const subtitle = ratio === null ? title : `${title}: ${ratio}`;
    const { data, layout } = picture({ ...now, ...PICTURE }, inLanguage(record.scenario.title), subtitle, where);
    await come.downloadImage(
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

/**
 * @param {Plot} element
 * @param {{current: Drawn}} latest
 */
function listen(element, latest) {
  element.on("plotly_hover", ({ event, points: [{ customdata }] }) =>
    tipAt(event.clientX, event.clientY, tipLines(latest.current, ...customdata)),
  );
  element.on("plotly_unhover", hideTip);
  element.on("plotly_click", ({ points: [{ customdata }] }) => {
    const { shown, record, metric } = latest.current;
    const point = pointAt(record, customdata[1], customdata[0]);
    const address = point && traceAddress(shown.entry, point, metric);
    if (address) location.assign(address);
  });
}

/**
 * What a point says when it is pointed at.
 * @param {Drawn} drawn
 * @param {string} variant
 * @param {string | number} at
 */
function tipLines({ shown, record, metric, most }, variant, at) {
  const point = pointAt(record, at, variant);
  const where = axisPoints(record).find((one) => one.at === at);
  if (!point || !where) return []; // another record is shown meanwhile
  const figureOf = point.figures[metric];
  const info = record.metrics[metric];
  const measure = measureOf(info.unit, most > 0 ? figureOf.median : 0);
  return [
    html`<b>${variantTitle(record, variant)}</b>`,
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
 * The chart for a reader who does not see it. The table says the same and more.
 * @param {Drawn} drawn
 * @param {string} title of the metric
 */
function inWords({ record, metric, against, most }, title) {
  const unit = against === null ? (record.metrics[metric]?.unit ?? "") : "×";
  const measure = measureOf(unit, most);
  const titles = new Map(axisPoints(record).map((one) => [one.at, atText(one)]));
  const lines = curves(record, metric, against).map(({ variant, points }) =>
    t("bench.chart.line", {
      variant: inLanguage(variant.title),
      values: points.map((p) => `${titles.get(p.at) ?? p.at}: ${estimateText(p, unit, measure)}`).join(", "),
    }),
  );
  return t("bench.chart.of", { metric: title, scenario: inLanguage(record.scenario.title), lines: lines.join("; ") });
}

/**
 * Which curve is which: colour, and without colour marker and dash, or the bars' hatching.
 * @param {{record: BenchRecord, metric: string}} props
 */
export function Legend({ record, metric }) {
  const bars = isCategorical(record);
  return html`<ul class="bench-legend">
    ${curves(record, metric).map(({ variant, index }) => {
      const { colour, dash, symbol, pattern } = styleOf(index);
      const peer = record.peers[variant.id];
      return html`<li key=${variant.id} class=${`bench-style-${colour}`}>
        <svg viewBox="0 0 28 14" width="28" height="14" aria-hidden="true">
          ${
            bars
              ? html`<rect x="6" y="2" width="16" height="10" class="bench-key-fill" />
                <path d=${HATCHES[pattern]} class="bench-key-hatch" />`
              : html`<path d="M0 7h28" stroke-dasharray=${DASHES[dash]} class="bench-key-line" />
                <path d=${SHAPES[symbol]} class="bench-key-fill" />`
          }
        </svg>
        ${inLanguage(variant.title)}${peer ? html` <span class="hint">${peer}</span>` : null}
      </li>`;
    })}
  </ul>`;
}
