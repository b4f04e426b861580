// Prefetch on a site: requests the words of the user's language and the start of the opening while the first script is
// still loading. The language is determined in the same order as in state/settings.js.
(() => {
  const remembered = () => {
    try {
      return JSON.parse(localStorage.getItem("kvtheater") ?? "{}").lang;
    } catch {
      return undefined; // unreadable storage counts as empty, and private windows may have none
    }
  };
  const chosen = new URLSearchParams(location.search).get("lang") ?? remembered();
  const code = chosen ?? (navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en");
  if (code !== "zh" && code !== "en") return;
  /** @param {string} href @param {"high" | "low"} fetchPriority */
  const ahead = (href, fetchPriority) => {
    const rest = { rel: "preload", as: "fetch", crossOrigin: "anonymous", fetchPriority, href };
    document.head.append(Object.assign(document.createElement("link"), rest));
  };
  ahead(`words/${code}.json`, "high");
  if (location.search) return; // a link to a place shows no opening
  ahead(`static/opening/${code}-first.kvtrace`, "low");
})();
