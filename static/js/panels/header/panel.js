// The page's header: model, connection, language, theme, and tools such as sharing a link to the shown record.

import { batch, computed } from "../../../vendor/signals/signals.js";
import { helpOpen } from "../../control/keyboard.js";
import { exportOpen, modelsOpen, toggleExport, toggleModels } from "../../control/models.js";
import { toggle } from "../../control/present.js";
import { sizeOf } from "../../core/shape.js";
import { countText, inLanguage, t } from "../../i18n/words.js";
import { html } from "../../kit/html.js";
import { Icon } from "../../kit/icon.js";
import { LanguageSwitch, ThemeButton } from "../../kit/preferences.js";
import { Term } from "../../kit/term.js";
import { runAddress } from "../../net/commands.js";
import { activeRecording } from "../../net/library.js";
import { attends, classState, startOpen } from "../../state/classroom.js";
import { markPlace, openView, settings } from "../../state/settings.js";
import {
  connection,
  exhibits,
  isLoading,
  isPolling,
  log,
  longRun,
  modelFacts,
  models,
  ownIsShown,
  serverModel,
  status,
  toast,
  viewIndex,
} from "../../state/store.js";
import { hasLesson, isEmbedded, isSite } from "../../state/without_server.js";
import { isDismissed } from "./notice.js";

function RecordMark() {
  const recording = activeRecording.value;
  if (!recording) return null;
  return html`<button class="tool record-now" id="record-now" title=${recording.name} onClick=${openLibrary}><i
    class="record-mark" aria-hidden="true">●</i> ${t("library.recording")}</button>`;
}

function openLibrary() {
  settings.region.value = "detail";
  settings.detail.value = "library";
}

/** Whether the run on stage can change its model, to one named on the command line or back to the default. */
const hasChoice = computed(
  () =>
    connection.value === "live" &&
    ownIsShown.value &&
    Boolean(settings.model.value || Object.values(models.value).some(({ place }) => place === "named")),
);

function ModelButton() {
  const name = log.value?.header.model.name;
  if (!hasChoice.value || !name) return null;
  const label = t("header.model", { name });
  return html`<button
    class="tool model-button"
    id="btn-models"
    aria-expanded=${modelsOpen.value}
    aria-label=${label}
    title=${label}
    onClick=${toggleModels}
  >
    <span class="model-button-name">${name}</span> <span aria-hidden="true">▾</span>
    <${Icon} name="model" />
  </button>`;
}

function FaultBadge() {
  const fault = /** @type {string | null} */ (log.value?.header.engine.fault);
  if (!fault) return null;
  // without a server, the fault is shown by its name in the log
  const exhibit = exhibits.value.find((one) => one.id === fault);
  const name = exhibit ? inLanguage(exhibit.title) : fault;
  const openExhibit = () => {
    markPlace();
    batch(() => {
      settings.exhibit.value = fault;
      settings.detail.value = "museum";
      settings.region.value = "detail";
    });
  };
  return html`<button class="fault-badge" id="fault-badge" data-fault=${fault} title=${t("museum.badge.more")}
    onClick=${openExhibit}>
    <span aria-hidden="true">⚠\uFE0E</span><span class="fault-badge-what">${t("museum.badge")}</span><span
      class="fault-badge-short">${t("museum.badge.short")}</span><span class="fault-badge-name">${name}</span>
  </button>`;
}

function ExportButton() {
  return html`<button
    class="tool"
    id="btn-export"
    aria-expanded=${exportOpen.value}
    aria-label=${t("header.export")}
    title=${t("header.export")}
    onClick=${toggleExport}
  >
    <${Icon} name="picture" />
  </button>`;
}

export function Panel() {
  const header = (log.value ?? longRun.value)?.header;
  return html`<header class="header">
    <h1 class="wordmark"><button id="btn-intro" title=${t("header.intro")}
      onClick=${() => openView("intro")}><span class="wordmark-kv"><i>K</i><i>V</i></span><span
      class="wordmark-rest"> ${t("app.title").replace("KV ", "")}</span></button></h1>
    <${ModelButton} />
    <div class="facts">${
      header?.observed
        ? html`<span class="fact strong">${header.model.name}</span>`
        : header
          ? html`<${Facts} header=${header}
      />`
          : html`<span>${modelFacts.value || serverModel.value ? "" : t("app.waking")}</span>`
    }</div>
    <${FaultBadge} />
    ${
      header?.simulated
        ? html`<b class="fault-badge is-simulated" title=${t("header.simulated.more", header.simulated)}>◇<span
            class="fault-badge-what">${t("header.simulated")}</span></b>`
        : null
    }
    ${
      header?.watched
        ? html`<b class="fault-badge is-simulated" id="watched-badge" title=${header.watched.source}>◉<span
            class="fault-badge-what">${header.watched.source}</span></b>`
        : null
    }
    ${
      header?.observed
        ? html`<b class="fault-badge is-simulated" id="monitor-badge" title=${t("header.monitor.more")}>◉<span
            class="fault-badge-what">${t("header.monitor")}</span></b>`
        : null
    }
    <${Connection} />
    <${RecordMark} />
    <div class="header-tools">
      <${Links} />
      <${LanguageSwitch} />
      <${ThemeButton} />
      <button class="tool" id="btn-present" onClick=${toggle} aria-label=${t("header.present")}
        title=${t("header.present")}><${Icon} name="room" /></button>
      <button class="tool" id="btn-share" onClick=${share} aria-label=${t("header.share")}
        title=${t("header.share")}><${Icon} name="share" /></button>
      <${DownloadLink} />
      <${ExportButton} />
      <button class="tool" id="btn-help" aria-expanded=${helpOpen.value}
        onClick=${() => (helpOpen.value = !helpOpen.value)} aria-label=${t("header.help")} title=${t("header.help")}>
        <${Icon} name="help" />
      </button>
    </div>
  </header>`;
}

/** Download of the run as a file. A placeholder reserves the space while the page waits for the run. */
function DownloadLink() {
  const trace = log.value && runAddress("trace");
  const isAwaited = !log.value && !longRun.value && !isSite;
  if (!trace) return isAwaited ? html`<i class="tool" aria-hidden="true"></i>` : null;
  return html`<a class="tool" id="btn-download" href=${trace} download aria-label=${t("header.download")}
    title=${t("header.download")}><${Icon} name="download" /></a>`;
}

/** Links to the other pages: one tab stop, navigated with arrow keys. */
const Links = () => html`<span class="header-links" role="toolbar" aria-label=${t("header.pages")} data-arrows>
      ${
        (isEmbedded && !hasLesson) || attends.value
          ? null
          : html`<button class="tool header-bench" id="btn-learn" onClick=${learn}>${t("header.learn")}</button>`
      }
      ${
        isEmbedded || isSite || classState.value
          ? null
          : html`<button class="tool header-bench" id="btn-teach" onClick=${() => (startOpen.value = true)}>${t(
              "header.teach",
            )}</button>`
      }
      <${ApiLink} />
      ${
        isEmbedded || isSite
          ? null
          : html`<a class="tool header-bench" href="scale">${t("header.scale")}</a>
            <a class="tool header-bench" href="prompts">${t("header.prompts")}</a>
            <a class="tool header-bench" href="bench">${t("header.bench")}</a>`
      }
    </span>`;

/** Link to the run that serves the OpenAI API, with its number of active requests if this page shows it. */
function ApiLink() {
  const api = modelFacts.value?.api;
  if (!api) return null;
  const isShown = settings.theater.value === api;
  const active = (isShown && status.value?.api?.active) || 0;
  const target = `?theater=${encodeURIComponent(api)}&distance=bench&detail=requests`;
  return html`<a class=${`tool header-bench header-api${isShown ? " here" : ""}`} id="link-api" href=${target}
    aria-current=${isShown ? "page" : undefined} title=${t("header.api.why")}>API${active ? ` · ${active}` : ""}</a>`;
}

/** @param {{header: import("../../core/trace.js").Header}} props */
function Facts({ header }) {
  const m = header.model;
  const bytesPerWeight = m.bytes_per_weight; // differs from the dtype's size for quantized weights
  return html`${hasChoice.value ? null : html`<span class="fact strong">${m.name}</span>`}
    <span class="fact">${t("header.params", { n: countText(m.num_params) })}</span>
    <span class="fact">${layersText(m)}</span>
    <span class="fact"><${Term} id="gqa">${t("header.heads", {
      q: m.num_heads,
      kv: sizeOf(m, "num_kv_heads"),
    })}<//></span>
    <span class="fact">${m.dtype}</span>
    ${bytesPerWeight && html`<span class="fact">${t("header.weights", { n: bytesPerWeight.toPrecision(3) })}</span>`}
    ${header.machine.device && html`<span class="fact">${header.machine.device}</span>`}
    <${Compiling} />`;
}

/**
 * Text of the number of layers, including the number with recurrent states if there are any.
 * @param {import("../../core/trace.js").ModelFacts} model
 */
function layersText({ num_layers: keys, layer_kinds: kinds = [] }) {
  const states = kinds.filter((kind) => kind === "state" || kind === "both").length;
  return t(states ? "header.layers.states" : "header.layers", { n: kinds.length || keys, keys, states });
}

/** Shown while the forward pass is being compiled; the model already serves requests. */
const Compiling = () =>
  serverModel.value?.compiled === "under_way"
    ? html`<span class="fact" id="compiling" title=${t("model.compiling.why")}>${t("model.compiling")}</span>`
    : null;

function Connection() {
  const now = connection.value;
  const mark = { live: "●", replay: "▷", connecting: "◌", lost: "◌", gone: "○" }[now];
  const isMinimized = isDismissed.value && (now === "lost" || now === "gone");
  const isPolled = now === "live" && isPolling.value;
  const word = now === "connecting" && isLoading.value ? "loading" : isPolled ? "polling" : now;
  const text = html`<i aria-hidden="true">${mark}</i> <span class="connection-text">${t(`connection.${word}`)}</span>`;
  return html`<span class=${`connection ${now}`} role="status" id="connection"
    title=${isPolled ? t("connection.polling_why") : null}>${
      isMinimized
        ? html`<button class="connection-why" id="connection-why" title=${t("connection.why")}
          onClick=${() => (isDismissed.value = false)}>${text}</button>`
        : text
    }</span>`;
}

const learn = () => openView("lesson");

/** Share the address of the shown record through the system dialog on touch devices, otherwise copy it. */
async function share() {
  const address = new URL(location.href);
  for (const parameter of ["token", "class", "teach"]) address.searchParams.delete(parameter);
  if (viewIndex.value >= 0) address.searchParams.set("step", String(viewIndex.value));
  if (navigator.share && matchMedia("(pointer: coarse)").matches) {
    await navigator.share({ title: t("app.title"), url: address.href }).catch(() => {}); // dialog was dismissed
    return;
  }
  try {
    await navigator.clipboard.writeText(address.href);
    toast(t("header.shared"));
  } catch {
    toast(t("header.share_failed"));
  }
}
