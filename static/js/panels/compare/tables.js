// Both runs in numbers: each request, then the whole run in blocks, decisions, work and time.

import { html } from "../../kit/html.js";
import { Fidelity, tips } from "../../kit/parts.js";
import { FIGURES, linesOf, operationsThatDiffer } from "../../runs/comparison.js";
import { bytesText, countText, grouped, secondsText, t } from "../../tell/words.js";

export function Tables({ now }) {
  return html`<div class="compare-tables">
    <${Requests} now=${now} />
    <${Totals} now=${now} />
    <${Charts} now=${now} />
  </div>`;
}

const COLUMNS = [
  ["tokens", (s) => s.tokens.length, grouped],
  ["cached", (s) => s.num_cached_tokens, grouped],
  ["computed", (s) => s.computed_tokens, grouped],
  ["preemptions", (s) => s.num_preemptions, grouped],
  ["blocks", (s) => s.blocks_peak, grouped],
  ["ttft", (s) => s.ttft, secondsText],
  ["seconds", (s) => s.seconds, secondsText],
];

function Requests({ now }) {
  return html`<section class="compare-scroll" tabindex="0" data-arrows role="group" aria-label=${t("compare.requests")}>
    <table class="compare-table num" id="compare-requests">
      <thead>
        <tr>
          <th scope="col">${t("compare.requests")}</th>
          <td></td>
          ${COLUMNS.map(([key]) => html`<th scope="col" key=${key}>${t(`compare.column.${key}`)} <${Fidelity} kind="derived" formula=${t(`compare.formula.${key}`)} /></th>`)}
        </tr>
      </thead>
      ${now.sequences.map(
        (pair) => html`<tbody key=${`${pair.request_id}/${pair.number}/${pair.member}`} data-request=${pair.request_id}>
          ${["a", "b"].map(
            (side, i) => html`<tr>
              ${i === 0 ? html`<th scope="rowgroup" rowspan="2">${pair.request_id}${pair.member ? ` · ${pair.member + 1}` : ""}</th>` : null}
              <th scope="row" class=${side}>${side.toUpperCase()}</th>
              ${COLUMNS.map(([key, of, text]) => {
                const [mine, other] = [side, side === "a" ? "b" : "a"].map((s) => (pair[s] ? of(pair[s]) : null));
                const counts = key !== "ttft" && key !== "seconds";
                return html`<td key=${key} data-figure=${key} class=${counts && pair.a && pair.b && mine !== other ? "differs" : ""}>${mine === null ? "–" : text(mine)}</td>`;
              })}
            </tr>`,
          )}
        </tbody>`,
      )}
    </table>
  </section>`;
}

const TEXT = { count: grouped, bytes: bytesText, seconds: secondsText, flops: countText };
const EXACT = { bytes: (n) => `${grouped(n)} B`, flops: (n) => `${grouped(n)} FLOP` };

function Totals({ now }) {
  const other = operationsThatDiffer(now);
  return html`<table class="compare-table num" id="compare-totals">
    <thead>
      <tr>
        <th scope="col">${t("compare.whole")}</th>
        <th scope="col" class="a">A</th>
        <th scope="col" class="b">B</th>
        <th scope="col">B − A</th>
      </tr>
    </thead>
    ${FIGURES.map(
      ([group, rows]) => html`<tbody key=${group}>
        ${rows.map(([name, kind]) => html`<${Row} key=${name} name=${name} kind=${kind} a=${now.a.totals[name]} b=${now.b.totals[name]} />`)}
      </tbody>`,
    )}
    ${
      other.length
        ? html`<tbody>
          <tr>
            <th scope="row">${t("compare.operations")} <${Fidelity} kind="derived" formula=${t("compare.formula.operations")} /></th>
            <td colspan="3"><div class="compare-operations">${other.map(([type, a, b]) => html`<span key=${type}><code>${type}</code> ${grouped(a)} / ${grouped(b)}</span>`)}</div></td>
          </tr>
        </tbody>`
        : null
    }
  </table>`;
}

function Row({ name, kind, a, b }) {
  const text = TEXT[kind];
  const exact = EXACT[kind];
  const about = exact ? { tabindex: 0, ...tips(() => [`A ${exact(a)}`, `B ${exact(b)}`]) } : {};
  return html`<tr data-figure=${name} class=${a === b ? "" : "differs"}>
    <th scope="row">${t(`compare.total.${name}`)} <${Fidelity} kind="derived" formula=${t(`compare.formula.${name}`)} /></th>
    <td>${text(a)}</td>
    <td>${text(b)}</td>
    <td ...${about}>${a === b ? "=" : `${b > a ? "+" : "−"}${text(Math.abs(b - a))}`}</td>
  </tr>`;
}

/** Memory and time over the steps, both runs on one scale. */
function Charts({ now }) {
  const chart = (key, of, text) => {
    const { a, b, steps, most } = linesOf(now, of);
    const path = (line) =>
      line.map(([x, y], i) => `${i ? "L" : "M"}${(x * 300).toFixed(1)} ${(60 - y * 58).toFixed(1)}`).join("");
    return html`<figure class="compare-chart" key=${key}>
      <figcaption>${t(`compare.chart.${key}`)} <${Fidelity} kind="derived" formula=${t(`compare.formula.chart_${key}`)} /></figcaption>
      <svg viewBox="0 0 300 62" preserveAspectRatio="none" role="img" aria-label=${t(`compare.chart.${key}.label`, { most: text(most), steps: grouped(steps) })}>
        <path class="a" d=${path(a)} /><path class="b" d=${path(b)} />
      </svg>
      <p class="compare-scale num"><span>${t("compare.chart.most", { most: text(most) })}</span><span>${t("compare.chart.steps", { n: grouped(steps) })}</span></p>
    </figure>`;
  };
  return html`<div class="compare-charts">
    ${chart("memory", (point) => point.bytes_held, bytesText)} ${chart("time", (point) => point.seconds, secondsText)}
    <p class="compare-legend"><span class="a">A</span> <span class="b">B</span></p>
  </div>`;
}
