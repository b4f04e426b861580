// Machine and method of a record, in words.

import { bytesText, t } from "../i18n/words.js";
import { variantTitle } from "./record.js";
import { listed } from "./store.js";
import { momentText } from "./words.js";

/** @import {BenchRecord} from "../core/bench.js" */

/** @typedef {BenchRecord["environment"]} Environment */

/** Return the machine's name, for headings. @param {{environment: Environment}} of a record or its list entry */
export const machineText = ({ environment: { machine, system } }) =>
  machine.device === "cpu" ? machine.processor || system : machine.device;

/** Return short texts on everything needed to judge the figures. @param {BenchRecord} record @returns {string[]} */
export function whereParts(record) {
  const { environment: e, scenario } = record;
  const { machine } = e;
  const others = Object.entries(record.peers).map(
    ([variant, version]) => `${variantTitle(record, variant)}: ${version}`,
  );
  return [
    machineText(record),
    machine.device === "cpu" ? null : machine.processor,
    e.system,
    t("bench.where.threads", { cpus: e.num_cpus, threads: machine.num_threads }),
    e.memory_bytes === null ? null : t("bench.where.memory", { memory: bytesText(e.memory_bytes) }),
    t("bench.where.dtype", { model: scenario.model, dtype: scenario.dtype }),
    Object.entries(machine.versions)
      .map(([name, version]) => `${name} ${version}`)
      .join(", "),
    others.length && t("bench.where.peers", { peers: others.join("; ") }),
    `${momentText(e.created)} UTC`,
    e.commit &&
      t("bench.where.commit", {
        commit: e.modified ? t("bench.where.modified", { commit: e.commit.slice(0, 10) }) : e.commit.slice(0, 10),
      }),
    t("bench.where.seed", { seed: e.seed }),
    t(record.complete === false ? "bench.where.stopped" : "bench.where.rounds", { n: record.rounds }),
    quietText(e),
    isOlder(e) && t("bench.where.older"),
  ].flatMap((part) => part || []);
}

/** Return a text on whether other processes used the machine during the run. @param {Environment} environment */
function quietText({ quiet, busy_cpus: busy }) {
  if (busy === null || busy === undefined) return t("bench.where.unknown");
  if (busy > 0.1) return t("bench.where.busy", { busy });
  return quiet
    ? t("bench.where.quiet", { busy })
    : `${t("bench.where.busy_before")}; ${t("bench.where.quiet", { busy })}`;
}

/** Return whether the code of a step has changed since the record was made. @param {Environment} environment */
const isOlder = ({ code }) => listed().code !== "" && code !== listed().code;

/** Return whether the timings deserve caution. @param {{environment: Environment}} record */
export const wasBusy = ({ environment: { quiet, busy_cpus: busy } }) => !quiet || (busy ?? 0) > 0.1;
