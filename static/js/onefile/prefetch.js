// Prefetch on a site: requests the words of the user's language and the start of the opening while the first script is
// still loading. The language is determined in the same order as in state/settings.js.
(() => {
  const storedLanguage = () => {
    try {
      return JSON.parse(localStorage.getItem("kvtheater") ?? "{}").lang;
    } catch {
      return undefined; // unreadable storage counts as empty; private windows may have no storage
    }
  };
  const chosen = new URLSearchParams(location.search).get("lang") ?? storedLanguage();
  const code = chosen ?? (navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en");
  if (code !== "zh" && code !== "en") return;
  /** @param {string} href @param {"high" | "low"} fetchPriority */
  const preload = (href, fetchPriority) => {
    const rest = { rel: "preload", as: "fetch", crossOrigin: "anonymous", fetchPriority, href };
    document.head.append(Object.assign(document.createElement("link"), rest));
  };
  preload(`words/${code}.json`, "high");
  if (location.search) return; // with settings in the link, the opening is not shown
  preload(`static/opening/${code}-first.kvtrace`, "low");
})();
