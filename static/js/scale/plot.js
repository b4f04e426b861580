// Plot of a section, drawn by Plotly after it has loaded, with downloads of the picture and the numbers.

import { useEffect, useRef, useState } from "../../vendor/preact/hooks.js";
import { language } from "../i18n/language.js";
import { grouped, t } from "../i18n/words.js";
import { colours, themeVersion } from "../kit/colour.js";
import { html } from "../kit/html.js";
import { baseLayout, CONFIG, loadPlotly } from "../kit/plotly.js";

const HEIGHT = 320;
const PICTURE = { width: 1200, height: 720 };

/**
 * Plot with a table of its numbers. `figure`: returns Plotly traces and layout, to which common settings are added.
 * `rows`: returns the numbers, with a header row.
 * @param {{
 *   id: string, title: string, figure: () => {data: object[], layout: object}, rows: () => (string | number)[][]
 * }} props
 */
export function Plot({ id, title, figure, rows }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const plot = useRef(/** @type {HTMLElement | null} */ (null));
  const [plotly, setPlotly] = useState(/** @type {import("../kit/plotly.js").Plotly | null} */ (null));
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const [element, drawn] = [box.current, plot.current];
    if (!element || !drawn) return undefined;
    loadPlotly().then(setPlotly, () => setPlotly(null));
    const sizes = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)));
    sizes.observe(element);
    return () => sizes.disconnect();
  }, []);
  useEffect(() => {
    if (!plotly || !width || !plot.current || !box.current) return;
    const { data, layout } = sized(figure(), width, HEIGHT);
    plotly.react(plot.current, data, layout, CONFIG);
    box.current.dataset.drawn = String(data.length);
  }, [plotly, width, figure, themeVersion.value, language.value]);
  const save = (/** @type {"png" | "svg"} */ format) => async () => {
    const { data, layout } = sized(figure(), PICTURE.width, PICTURE.height);
    const paper = { ...layout, paper_bgcolor: colours().surface };
    const loaded = await loadPlotly();
    await loaded.downloadImage({ data, layout: paper }, { ...PICTURE, format, filename: `kvtheater-${id}` });
  };
  const text = () =>
    rows()
      .map((row) => row.map(cell).join(","))
      .join("\n");
  return html`<figure class="bench-figure">
    <figcaption>
      <span>${title}</span>
      <span>
        ${(/** @type {("png" | "svg")[]} */ (["png", "svg"])).map(
          (format) =>
            html`<button key=${format} class="link" onClick=${save(format)}>${format.toUpperCase()}</button> `,
        )}
        <a class="link" download=${`kvtheater-${id}.csv`} href=${`data:text/csv,${encodeURIComponent(text())}`}>CSV</a>
      </span>
    </figcaption>
    <div class="bench-chart chart" ref=${box} role="img" aria-label=${title} id=${`scale-plot-${id}`}>
      <div class="chart-plot" ref=${plot}></div>
    </div>
    <${Numbers} title=${title} rows=${rows} />
  </figure>`;
}

/** Table of the plotted data. @param {{title: string, rows: () => (string | number)[][]}} props */
function Numbers({ title, rows }) {
  const [open, setOpen] = useState(false);
  const [names, ...lines] = open ? rows() : [[]];
  return html`<details onToggle=${(/** @type {{currentTarget: HTMLDetailsElement}} */ { currentTarget }) =>
    setOpen(currentTarget.open)}>
    <summary>${t("scale.table")}</summary>
    <div class="scale-wide" tabindex="0" role="region" aria-label=${title}>
      <table class="scale-table">
        <thead>
          <tr>${names.map((one) => html`<th key=${one} scope="col">${one}</th>`)}</tr>
        </thead>
        <tbody>
          ${lines.map((line, at) => html`<tr key=${at}>${line.map((one) => html`<td>${shown(one)}</td>`)}</tr>`)}
        </tbody>
      </table>
    </div>
  </details>`;
}

/** @param {string | number} value */
function shown(value) {
  if (typeof value === "string") return value;
  return grouped(Number.isInteger(value) ? value : Number(value.toPrecision(4)));
}

/**
 * Return a straight line across the plot at one value of an axis.
 * @param {"x" | "y"} along axis of the value
 * @param {number} at
 * @param {string} dash
 */
export function lineAt(along, at, dash) {
  const other = along === "x" ? "y" : "x";
  return {
    type: "line",
    [`${along}0`]: at,
    [`${along}1`]: at,
    [`${other}ref`]: "paper",
    [`${other}0`]: 0,
    [`${other}1`]: 1,
    line: { color: colours()["ink-3"], width: 1, dash },
  };
}

/** @param {{data: object[], layout: object}} figure @param {number} width @param {number} height */
function sized({ data, layout }, width, height) {
  const shared = {
    ...baseLayout(width, height),
    showlegend: true,
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 },
    margin: { l: 56, r: 10, t: 40, b: 44 },
  };
  return { data, layout: { ...shared, ...layout } };
}

/** @param {string | number} value */
function cell(value) {
  return typeof value === "string" && /[",\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value;
}
