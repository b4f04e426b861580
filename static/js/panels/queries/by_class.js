// Requests of a run by class, with another run for comparison; sortable.

import { useEffect, useState } from "../../../vendor/preact/hooks.js";
import { refusalText } from "../../i18n/language.js";
import { grouped, percentText, secondsText, t } from "../../i18n/words.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { Select } from "../../kit/inputs.js";
import { CLASSIFIERS, COLUMNS, differenceOf, kindOf, sorted } from "./model.js";
import { pollAnswer } from "./poll_answer.js";

/** @import {Refusal} from "../../i18n/language.js" */
/** @import {Answer, Class, Column} from "./model.js" */

/** @param {{address: string}} props */
export function ByClass({ address }) {
  const [by, setBy] = useState("");
  const [other, setOther] = useState("");
  const [runs, setRuns] = useState(/** @type {{id: string, name: string}[]} */ ([]));
  const [answer, setAnswer] = useState(/** @type {Answer | null} */ (null));
  const [problem, setProblem] = useState(/** @type {Refusal | null} */ (null));
  useEffect(() => {
    if (!by) return undefined;
    setProblem(null);
    return pollAnswer(
      `${address}?${new URLSearchParams({ by, ...(other ? { beside: other } : {}) })}`,
      (found) => {
        setAnswer(found);
        return found.runs.every((/** @type {Answer["runs"][0]} */ run) => run.num_surveyed === run.num_records);
      },
      setProblem,
    );
  }, [by, other]);
  useEffect(() => {
    if (by && !runs.length) listRuns().then(setRuns, () => {});
  }, [by]);
  const others = runs.filter(({ id }) => !address.includes(`/${id}/`)).map(({ id, name }) => [id, name]);
  return html`<section aria-labelledby="queries-classes" id="classes">
    <h3 class="panel-title" id="queries-classes">${t("queries.classes")} <${Fidelity} kind="derived"
      formula=${t("queries.classes.formula")} /></h3>
    <p class="queries-ask">
      <label>${t("queries.classes.by")} <${Select} id="classes-by" value=${by} commit=${setBy}
        choices=${[
          ["", t("queries.classes.choose")],
          ...CLASSIFIERS.map((one) => [one, t(`queries.by.${one}`)]),
        ]} /></label>
      ${
        by
          ? html`<label>${t("queries.classes.beside")} <${Select} id="classes-beside" value=${other}
            commit=${setOther} choices=${[["", t("queries.classes.alone")], ...others]} /></label>`
          : null
      }
    </p>
    ${problem ? html`<p class="queries-problem" role="alert">${refusalText(problem)}</p>` : null}
    ${by && !answer && !problem ? html`<p role="status">${t("queries.classes.reading")}</p>` : null}
    ${by && answer ? html`<${ClassCounts} answer=${answer} runs=${runs} />` : null}
  </section>`;
}

/** List the runs that can be compared. @returns {Promise<{id: string, name: string}[]>} */
async function listRuns() {
  const [{ theaters }, { recordings = [] }] = await Promise.all(
    ["api/theaters", "api/recordings"].map(async (address) => (await fetch(address)).json()),
  );
  const runOf = (/** @type {string} */ id, /** @type {string} */ name) => ({ id, name: name || id });
  return [
    ...recordings.map((/** @type {{id: string, name: string}} */ one) => runOf(one.id, one.name)),
    ...theaters.map((/** @type {{theater: string, name: string}} */ one) => runOf(one.theater, one.name)),
  ];
}

/** @param {{answer: Answer, runs: {id: string, name: string}[]}} props `runs`: by name */
function ClassCounts({ answer, runs }) {
  const [sort, setSort] = useState({ column: /** @type {Column | null} */ (null), down: true });
  const isPair = answer.runs.length > 1;
  const nameOfRun = (/** @type {string} */ theater) => runs.find(({ id }) => id === theater)?.name ?? theater;
  const rows = sorted(answer.classes, sort.column, sort.down, isPair);
  return html`${answer.runs.map(
    (run, i) =>
      html`<p class="hint" key=${i} role="status">${isPair ? `${"AB"[i]}: ${nameOfRun(run.theater)} · ` : ""}${
        run.unsaid
          ? t("queries.classes.unsaid", { why: run.unsaid })
          : run.num_surveyed < run.num_records
            ? t("queries.classes.so_far", { n: grouped(run.num_surveyed), all: grouped(run.num_records) })
            : t("queries.classes.records", { n: grouped(run.num_records), count: run.num_records })
      }${run.is_simulated ? t("queries.classes.simulated") : ""}</p>`,
  )}
  <div class="queries-table" tabindex="0" role="region" aria-labelledby="queries-classes">
    <table class="num" data-two=${isPair}>
      <thead><tr><th scope="col">${t(`queries.by.${answer.by}`)}</th>${isPair ? html`<td></td>` : null}${COLUMNS.map(
        (name) => {
          const order = sort.column === name ? (sort.down ? "descending" : "ascending") : "none";
          return html`<th scope="col" key=${name} aria-sort=${order}><button title=${t(`queries.column.${name}.why`)}
            onClick=${() => setSort({ column: name, down: order !== "descending" })}>${t(`queries.column.${name}`)}${
              { none: "", ascending: " ▴", descending: " ▾" }[order]
            }</button></th>`;
        },
      )}</tr></thead>
      ${rows.map((one) => html`<${ClassRows} key=${one.name ?? ""} one=${one} isPair=${isPair} answer=${answer} />`)}
    </table>
  </div>
  ${answer.num_more ? html`<p class="hint">${t("queries.classes.more", { n: grouped(answer.num_more) })}</p>` : null}`;
}

/** Rows of a class: its figures, and for two runs the figures of both and their difference. @param {any} props */
function ClassRows({ one, isPair, answer: { by, runs } }) {
  const name = nameOf(one.name, by);
  const sides = isPair ? /** @type {const} */ (["a", "b"]) : /** @type {const} */ (["a"]);
  return html`<tbody data-class=${one.name ?? "?"}>
    ${sides.map(
      (side, i) => html`<tr key=${side}>
      ${i ? null : html`<th scope="rowgroup" rowspan=${isPair ? 3 : 1}>${name}</th>`}
      ${isPair ? html`<th scope="row" class="queries-side">${side.toUpperCase()}</th>` : null}
      ${COLUMNS.map((column) => html`<td key=${column}>${figureText(one[side], column, runs[i])}</td>`)}
    </tr>`,
    )}
    ${
      isPair
        ? html`<tr class="queries-difference">
            <th scope="row" class="queries-side">${t("queries.classes.difference")}</th>
            ${COLUMNS.map((column) => html`<td key=${column}>${differenceText(one, column)}</td>`)}
          </tr>`
        : null
    }
  </tbody>`;
}

/** @param {string | null} name @param {string} by */
function nameOf(name, by) {
  if (name === null) return t("queries.unknown");
  if (by === "all") return t("queries.by.all");
  if (by === "prefix")
    return name === "short" ? t("queries.prefix.short") : t("queries.prefix.named", { digest: name.slice(0, 8) });
  return by === "prompt" || by === "output" ? name.replace("-", "–") : name;
}

/**
 * Format a figure. `?`: the log does not report it; `–`: there is no value.
 * @param {Class["a"]} figures @param {Column} column @param {Answer["runs"][number]} run
 */
function figureText(figures, column, run) {
  if (run.unsaid) return "?";
  const value = figures?.[column] ?? null;
  if (value === null) return "–";
  const kind = kindOf(column);
  return kind === "share" ? percentText(value) : kind === "time" ? secondsText(value) : grouped(value);
}

/** @param {Class} one @param {Column} column */
function differenceText(one, column) {
  const value = differenceOf(one, column);
  if (value === null) return "–";
  if (value === 0) return "=";
  const sign = value > 0 ? "+" : "−";
  const size = Math.abs(value);
  const kind = kindOf(column);
  if (kind === "share") return t("queries.classes.points", { n: `${sign}${(100 * size).toFixed(1)}` });
  return `${sign}${kind === "count" ? grouped(size) : percentText(size)}`;
}
