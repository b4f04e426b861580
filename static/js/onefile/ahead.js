// In a site: the words of the reader's language are asked for while the first script is still on its way. Which
// language that will be, state/settings.js decides in the same order.
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
  const link = Object.assign(document.createElement("link"), { rel: "preload", as: "fetch", crossOrigin: "anonymous" });
  link.href = `words/${code}.json`;
  document.head.append(link);
})();
