// The first script of a page in one file: a browser imports no modules from file://, so their texts lie in the page,
// and become modules under the names of an import map. app/onefile.py makes such a page; this script stands in it as it
// is.
(async () => {
  const { nonce } = /** @type {HTMLScriptElement} */ (document.currentScript);
  const packed = document.getElementById("page-modules")?.textContent ?? "";
  const bytes = Uint8Array.from(atob(packed), (character) => character.charCodeAt(0));
  const inflated = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  /** @type {Record<string, string>} */
  const texts = await new Response(inflated).json();
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
