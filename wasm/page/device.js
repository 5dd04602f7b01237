// The device: the chip in the head, the notice when there is none, and the card.

import { $, bytes, definitions, element, table } from "./ui.js";

const BYTES = new Set(["maxBufferSize", "maxStorageBufferBindingSize", "maxUniformBufferBindingSize", "maxComputeWorkgroupStorageSize"]);

/** What a page without a device says: why, and what to do. */
const notices = {
  insecure: {
    title: "This page is not secure, so the browser hides WebGPU from it",
    why: "Browsers give WebGPU only to pages that came over https or from this machine.",
    what: [
      "Open the page over https.",
      ["Or on the machine that serves it, as ", element("code", {}, "http://localhost"), " with its port."],
      ["From another machine, through a tunnel: ", element("code", {}, "ssh -L 8080:localhost:8080 HOST"), ", and then ", element("code", {}, "http://localhost:8080"), "."],
    ],
  },
  "no-webgpu": {
    title: "This browser has no WebGPU",
    why: "The page computes through WebGPU, which this browser does not have, or has switched off.",
    what: [
      "Use a current Chrome, Edge, Safari or Firefox.",
      "If it is current, look whether WebGPU is switched off: in the browser’s flags, or by whoever manages it.",
    ],
  },
  "no-adapter": {
    title: "WebGPU is here, but finds no GPU to run on",
    why: "The browser offers WebGPU and gave no adapter when it was asked for one.",
    what: [
      "Turn on hardware acceleration in the browser’s settings, and start it again.",
      ["Install or update the GPU’s driver. In Chrome, ", element("code", {}, "chrome://gpu"), " says why a GPU is not used."],
      ["Without a GPU, start Chromium with ", element("code", {}, "--enable-unsafe-webgpu"), ", which gives a software adapter."],
    ],
  },
};

export function initDevice(engine) {
  engine.addEventListener("device", () => {
    const { adapter, failure } = engine.device;
    showChip(adapter, failure);
    showNotice(engine, failure);
    showCard(engine.device);
  });
}

function showChip(adapter, failure) {
  const chip = $("#chip"), software = adapter?.type === "software adapter";
  chip.className = `chip ${!adapter ? "bad" : software ? "soft" : "good"}`;
  chip.textContent = adapter ? `${adapter.name || "GPU"}${software ? ", software" : ""}` : failure?.kind === "broken" ? "not loaded" : "no GPU";
}

function showNotice(engine, failure) {
  const place = $("#notice");
  place.hidden = !failure;
  if (!failure) return;
  const broken = failure.kind === "broken";
  const notice = notices[failure.kind] ?? {
    title: broken ? "The program of this page does not run" : "The device could not be opened",
    why: failure.text ?? failure.message,
    what: broken ? ["Load the page again. If that does not help, the file named above is missing on the server."] : ["Try again. If that does not help, start the browser again."],
  };
  const again = element("button", { type: "button", onclick: () => engine.open() }, "Try again");
  place.replaceChildren(
    element("h2", {}, notice.title),
    element("p", {}, notice.why),
    element("ul", {}, ...notice.what.map((item) => element("li", {}, ...[item].flat()))),
    ...(broken ? [] : [element("p", {}, "Until then, Multiply and the chapter compute on the CPU, in WebAssembly. The benchmark needs a device.")]),
    again,
  );
}

function showCard({ adapter, reason, failure }) {
  const card = $("#device-card");
  if (!adapter) {
    card.replaceChildren(
      element("p", { className: "device-name" }, "No device", element("span", { className: "badge bad" }, failure.kind)),
      element("p", {}, failure.text ?? failure.message),
    );
    return;
  }
  const software = adapter.type === "software adapter";
  const known = (s) => s || "not told";
  card.replaceChildren(
    element("div", { className: "device-name" }, adapter.name || "unnamed adapter",
      element("span", { className: `badge ${software ? "soft" : "good"}` }, software ? "software adapter" : adapter.type === "unknown type" ? "GPU" : adapter.type)),
    ...(software ? [element("p", {}, "A software adapter: the shaders run on the CPU, so times say nothing about a GPU.")] : []),
    definitions([
      ["Vendor", known(adapter.vendor)],
      ["Driver", known(adapter.version)],
      ["Through", `${adapter.backend}, in a worker of this page`],
      ["Taken because", reason],
      ["Features", adapter.features.length ? element("ul", { className: "tags" }, ...adapter.features.map((f) => element("li", {}, f))) : "none that kernels use"],
    ], "stack"),
    element("div", { className: "scroll" }, table({
      caption: "Limits that the device grants",
      head: ["Limit", "Value"],
      rows: Object.entries(adapter.limits).map(([name, v]) => [element("code", {}, name), BYTES.has(name) ? bytes(v) : v.toLocaleString("en")]),
      numbers: [1],
    })),
  );
}
