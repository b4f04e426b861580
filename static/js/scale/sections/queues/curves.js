// Mean time to first token over the rate, one curve for each arrangement, each with its name at its end.

import { useCallback } from "../../../../vendor/preact/hooks.js";
import { colours } from "../../../kit/colour.js";
import { html } from "../../../kit/html.js";
import { axis } from "../../../kit/plotly.js";
import { t } from "../../../tell/words.js";
import { lineAt, Plot } from "../../plot.js";

const HIGHEST = 4; // of a curve, in service times: beyond it a queue only grows
const DASHES = { one: "solid", inter: "dash", intra: "dot" };
const SEQUENCES = { one: 5, inter: 4, intra: 2 };

/**
 * @typedef {import("./section.js").Answer} Answer
 * @param {{answer: Answer}} props
 */
export function Curves({ answer }) {
  const drawn = useCallback(() => figure(answer), [answer]);
  return html`<${Plot} id="queues" title=${t("scale.queues.chart")} figure=${drawn} rows=${() => rows(answer)} />`;
}

/** @param {Answer} answer */
function figure({ lines, asked, crossing }) {
  const palette = colours();
  const data = lines.map(({ arrangement, curve }) => ({
    type: "scatter",
    mode: "lines",
    name: t(`scale.queues.${arrangement}`),
    x: curve.map(({ rate }) => rate),
    y: curve.map(({ seconds }) => seconds),
    line: { color: palette.sequences[SEQUENCES[arrangement]], dash: DASHES[arrangement], width: 2 },
  }));
  const layout = {
    xaxis: axis(t("scale.queues.axis.rate"), { rangemode: "tozero" }),
    yaxis: axis(t("scale.queues.axis.ttft"), { range: [0, HIGHEST * asked.service] }),
    shapes: [lineAt("x", asked.rate, "solid"), ...(crossing ? [lineAt("x", crossing.rate, "dot")] : [])],
  };
  return { data, layout };
}

/** @param {Answer} answer */
function rows({ lines }) {
  const found = lines.flatMap(({ arrangement, curve }) =>
    curve.map(({ load, rate, seconds }) => [t(`scale.queues.${arrangement}`), load, rate, seconds]),
  );
  const names = ["arrangement", "load", "axis.rate", "axis.ttft"];
  return [names.map((id) => t(`scale.queues.${id}`)), ...found];
}
