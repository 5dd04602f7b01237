// Loads the Go program (wasm/worker), which answers the page's messages.
// This file adds one of its own, for a program that is not there or has ended:
//   {type: "broken", text}
"use strict";

importScripts("wasm_exec.js");

async function load(imports) {
  const response = await fetch("wgemm.wasm");
  if (!response.ok) throw new Error(`wgemm.wasm: ${response.status} ${response.statusText}`);
  // Some static hosts do not know the type, without which a browser does not
  // compile while it loads.
  if (response.headers.get("Content-Type") !== "application/wasm") {
    return WebAssembly.instantiate(await response.arrayBuffer(), imports);
  }
  return WebAssembly.instantiateStreaming(response, imports);
}

(async () => {
  try {
    const go = new Go();
    const { instance } = await load(go.importObject);
    await go.run(instance);
    postMessage({ type: "broken", text: "The program has ended, most likely for lack of memory." });
  } catch (error) {
    postMessage({ type: "broken", text: `The program did not start: ${error.message}` });
  }
})();
