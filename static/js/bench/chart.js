// One chart of one record: drawn by Plotly when it is here, told by the page's tooltip, saved as a picture.

import { useEffect, useRef, useState } from "../../vendor/preact/hooks.js";
import { themeVersion } from "../kit/colour.js";
import { html } from "../kit/html.js";
import { hideTip, tipAt } from "../kit/parts.js";
import { CONFIG, loadPlotly } from "../kit/plotly.js";
import { language } from "../tell/language.js";
import { inLanguage, t } from "../tell/words.js";
import { figure, picture, styleOf, variantTitle } from "./figure.js";
import { axisPoints, curves, isCategorical, pointAt } from "./record.js";
import { stepOf, traceAddress } from "./store.js";
import { atText, estimateText, measureOf, numberText, quantityText } from "./words.js";

const HEIGHT = 320;
const SHEET = 640; // px of a sheet's width: A4 between its margins
const PICTURE = { width: 1200, height: 720 };

/** `shown`: {id, entry, record}; `where`: the lines that a saved picture carries. */
export function Chart({ shown, metric, against = null, most, where }) {
  const { record } = shown;
  const box = useRef(null);
  const plot = useRef(null);
  const [plotly, setPlotly] = useState(null);
  const [width, setWidth] = useState(0);
  const now = { shown, record, metric, against, most, width };
  const latest = useRef(now);
  latest.current = now;
  useEffect(() => {
    loadPlotly().then(
      (loaded) => setPlotly(() => ({ loaded })),
      () => setPlotly("failed"),
    );
    const sizes = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)));
    sizes.observe(box.current);
    const element = plot.current;
    return () => {
      sizes.disconnect();
      hideTip();
      if (element.data) globalThis.Plotly.purge(element);
    };
  }, []);
  const empty = !curves(record, metric, against).length;
  const onPaper = useRef(false);
  const draw = () => {
    const { data, layout } = figure({
      ...latest.current,
      width: onPaper.current ? SHEET : latest.current.width,
      height: HEIGHT,
    });
    plotly.loaded.react(plot.current, data, layout, CONFIG);
  };
  useEffect(() => {
    if (!plotly?.loaded || empty) return undefined;
    const prints = ({ type }) => {
      onPaper.current = type === "beforeprint";
      draw(); // at once: what is drawn later is not on paper
    };
    for (const type of ["beforeprint", "afterprint"]) addEventListener(type, prints);
    return () => ["beforeprint", "afterprint"].forEach((type) => removeEventListener(type, prints));
  }, [plotly, empty]);
  useEffect(() => {
    if (!plotly?.loaded || !width || empty) return;
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
  const save = async () => {
    const loaded = await loadPlotly();
    const subtitle =
      against === null ? title : `${title}: ${t("bench.ratio", { baseline: variantTitle(record, against) })}`;
    const { data, layout } = picture({ ...now, ...PICTURE }, inLanguage(record.scenario.title), subtitle, where);
    await loaded.downloadImage(
      { data, layout },
      {
        format: "png",
        filename: `${record.scenario.id}-${metric}${against === null ? "" : `-against-${against}`}`,
        ...PICTURE,
        scale: 2,
      },
    );
  };
  return html`<figure class="bench-figure">
    <figcaption>
      <span>${against === null ? t("bench.absolute") : t("bench.ratio", { baseline: variantTitle(record, against) })}</span>
      <button class="link" disabled=${empty} aria-label=${t("bench.save.png")} title=${t("bench.save.png")} onClick=${save}>PNG</button>
    </figcaption>
    <div class="bench-chart chart" ref=${box} role="img" aria-label=${inWords(now, title)} aria-busy=${!plotly && !empty}>
      <div class="chart-plot" ref=${plot} hidden=${empty}></div>
      ${hint ? html`<p class="hint">${t(hint)}</p>` : null}
    </div>
  </figure>`;
}

function listen(element, latest) {
  element.on("plotly_hover", ({ event, points }) =>
    tipAt(event.clientX, event.clientY, tipLines(latest.current, points[0])),
  );
  element.on("plotly_unhover", hideTip);
  element.on("plotly_click", ({ points: [{ customdata }] }) => {
    const { shown, record, metric } = latest.current;
    const address = traceAddress(shown.entry, pointAt(record, customdata[1], customdata[0]), metric);
    if (address) location.assign(address);
  });
}

/** What a point says when it is pointed at. */
function tipLines({ shown, record, metric, most }, { customdata: [variant, at] }) {
  const point = pointAt(record, at, variant);
  const figureOf = point.figures[metric];
  const info = record.metrics[metric];
  const measure = measureOf(info.unit, most > 0 ? figureOf.median : 0);
  const where = axisPoints(record).find((one) => one.at === at);
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

/** The chart for who does not see it. The table says the same and more. */
function inWords({ record, metric, against, most }, title) {
  const unit = against === null ? (record.metrics[metric]?.unit ?? "") : "×";
  const measure = measureOf(unit, most);
  const titles = new Map(axisPoints(record).map((one) => [one.at, atText(one)]));
  const lines = curves(record, metric, against).map(({ variant, points }) =>
    t("bench.chart.line", {
      variant: inLanguage(variant.title),
      values: points.map((p) => `${titles.get(p.at)}: ${estimateText(p, unit, measure)}`).join(", "),
    }),
  );
  return t("bench.chart.of", { metric: title, scenario: inLanguage(record.scenario.title), lines: lines.join("; ") });
}

const DASHES = {
  solid: "",
  dash: "5 3",
  dot: "1.5 3",
  dashdot: "5 3 1.5 3",
  longdash: "8 3",
  longdashdot: "8 3 1.5 3",
};
const SHAPES = {
  circle: "M18 7a4 4 0 1 1-8 0a4 4 0 1 1 8 0z",
  square: "M10.5 3.5h7v7h-7z",
  diamond: "M14 2l5 5l-5 5l-5-5z",
  "triangle-up": "M14 2l5 9h-10z",
  cross: "M12.5 2.5h3v3h3v3h-3v3h-3v-3h-3v-3h3z",
  x: "M10 4.5l1.5-1.5l2.5 2.5l2.5-2.5l1.5 1.5l-2.5 2.5l2.5 2.5l-1.5 1.5l-2.5-2.5l-2.5 2.5l-1.5-1.5l2.5-2.5z",
  star: "M14 1.5l1.6 3.6l3.9.4l-2.9 2.6l.9 3.9l-3.5-2l-3.5 2l.9-3.9l-2.9-2.6l3.9-.4z",
  pentagon: "M14 2.5l4.5 3.3l-1.7 5.2h-5.6l-1.7-5.2z",
};
const HATCHES = {
  "": "",
  "/": "M6 12L16 2M12 12L22 2",
  x: "M6 12L16 2M12 12L22 2M6 2L16 12M12 2L22 12",
  "-": "M6 5h16M6 9h16",
  "|": "M10 2v10M14 2v10M18 2v10",
  ".": "M10 5h1M15 5h1M10 9h1M15 9h1",
  "+": "M10 2v10M18 2v10M6 7h16",
  "\\": "M6 2L16 12M12 2L22 12",
};

/** Which curve is which: colour, and without colour marker and dash, or the bars' hatching. */
export function Legend({ record, metric }) {
  const bars = isCategorical(record);
  const found = curves(record, metric);
  return html`<ul class="bench-legend">
    ${found.map(({ variant, index }) => {
      const style = styleOf(index);
      return html`<li key=${variant.id} class=${`bench-style-${style.colour}`}>
        <svg viewBox="0 0 28 14" width="28" height="14" aria-hidden="true">
          ${
            bars
              ? html`<rect x="6" y="2" width="16" height="10" class="bench-key-fill" /><path d=${HATCHES[style.pattern]} class="bench-key-hatch" />`
              : html`<path d="M0 7h28" stroke-dasharray=${DASHES[style.dash]} class="bench-key-line" /><path d=${SHAPES[style.symbol]} class="bench-key-fill" />`
          }
        </svg>
        ${inLanguage(variant.title)}${record.peers[variant.id] ? html` <span class="hint">${record.peers[variant.id]}</span>` : null}
      </li>`;
    })}
  </ul>`;
}
