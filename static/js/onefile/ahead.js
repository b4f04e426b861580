// In a site: the words of the reader's language and what its opening begins with are asked for while the first script
// is still on its way. Which language that will be, state/settings.js decides in the same order.
(() => {
  const kept = () => {
    try {
      return JSON.parse(localStorage.getItem("kvtheater") ?? "{}").lang;
    } catch {
      return undefined; // unreadable memory is no memory, and private windows may have none
    }
  };
  const asked = new URLSearchParams(location.search).get("lang") ?? kept();
  const code = asked ?? (navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en");
  if (code !== "zh" && code !== "en") return;
  /** @param {string} href @param {"high" | "low"} fetchPriority */
  const ahead = (href, fetchPriority) => {
    const rest = { rel: "preload", as: "fetch", crossOrigin: "anonymous", fetchPriority, href };
    document.head.append(Object.assign(document.createElement("link"), rest));
  };
  ahead(`words/${code}.json`, "high");
  if (location.search) return; // a link to a place: no opening
  ahead(`static/opening/${code}-first.kvtrace`, "low");
})();
