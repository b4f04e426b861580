// First script of a single-file page. A browser imports no modules from file://, so their texts are embedded in the
// page and become modules by an import map. app/page/onefile.py writes such a page, with this script
// unchanged.
(async () => {
  const { nonce } = /** @type {HTMLScriptElement} */ (document.currentScript);
  /** @param {string} id id of the element with packed content */
  const unpacked = (id) => {
    const packed = document.getElementById(id)?.textContent ?? "";
    const bytes = Uint8Array.from(atob(packed), (character) => character.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip")));
  };
  const words = /** @type {HTMLElement} */ (document.getElementById("page-words"));
  words.textContent = await unpacked("page-words").text();
  /** @type {Record<string, string>} */
  const texts = await unpacked("page-modules").json();
  /** @type {Record<string, string>} */
  const imports = {};
  for (const [name, text] of Object.entries(texts))
    imports[name] = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
  const map = Object.assign(document.createElement("script"), {
    type: "importmap",
    nonce,
    textContent: JSON.stringify({ imports }),
  });
  document.head.append(map);
  const main = "page/js/main.js"; // a name of the import map
  await import(main);
})();
