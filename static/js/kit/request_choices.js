// Filter controls of all request tables: by client, and by criterion.

import { useMemo } from "../../vendor/preact/hooks.js";
import { MINUTE, ONLY } from "../core/requests.js";
import { t } from "../i18n/words.js";
import { settings } from "../state/settings.js";
import { html } from "./html.js";
import { withValue } from "./inputs.js";

const NAMES = /** @type {(keyof typeof ONLY)[]} */ (Object.keys(ONLY));

/** @param {{rows: readonly {client: string | null}[]}} props all rows, shown or not */
export function RequestChoices({ rows }) {
  const clients = useMemo(() => clientsOf(rows), [rows]);
  return html`${
    clients.length
      ? html`<select id="requests-client" aria-label=${t("whose")} title=${t("whose")}
          onChange=${withValue((name) => (settings.client.value = name || null))}>
          <option value="" selected=${settings.client.value === null}>${t("whose.all")}</option>
          ${clients.map(
            (name) =>
              html`<option key=${name} value=${name} selected=${name === settings.client.value}>${name}</option>`,
          )}
        </select>`
      : null
  }
    <select id="requests-only" aria-label=${t("only")} title=${t("only.rule", { seconds: MINUTE })}
      onChange=${withValue((name) => (settings.only.value = NAMES.find((one) => one === name) ?? null))}>
      <option value="" selected=${settings.only.value === null}>${t("only.all")}</option>
      ${NAMES.map(
        (name) => html`<option key=${name} value=${name} selected=${name === settings.only.value}
          >${t(`only.${name}`)}</option>`,
      )}
    </select>`;
}

/** @param {readonly {client: string | null}[]} rows */
const clientsOf = (rows) => [...new Set(rows.flatMap(({ client }) => client ?? []))].sort();

/** Return the active criterion as a sentence; "" if there is none. */
export const onlyRule = () => (settings.only.value ? t(`only.${settings.only.value}.rule`, { seconds: MINUTE }) : "");

/** Return the reason that no row is shown. */
export const noneText = () =>
  settings.only.value
    ? t(`only.none.${settings.only.value}`)
    : settings.find.value
      ? t("find.none", { text: settings.find.value })
      : t("whose.none", { client: settings.client.value ?? "" });
