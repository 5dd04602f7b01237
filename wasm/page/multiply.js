// Multiply: files or random matrices in, a product with its time and check out.

import { $, Fault, attempt, bytes, definitions, duration, element, table, variantName, wholeNumbers } from "./ui.js";

const MAX_SIZE = 1e9;
const MAX_FILE = 2 ** 30;
const SOFTWARE_SIZE = 128; // where 512 would take a visitor's patience

export function initMultiply(engine) {
  const form = $("#multiply-form"), result = $("#product");
  const faults = Object.fromEntries(["sizes", "a", "b", "tile", "multiply"].map((name) => [name, new Fault(`error-${name}`, engine)]));
  const files = { a: null, b: null }; // {file, rows, cols, dtype}, once it has been looked at
  let url = null; // of the last product's file

  // What the form offers depends on the program and on the device.
  engine.addEventListener("device", () => {
    if (engine.device.adapter?.type === "software adapter") {
      for (const size of [form.m, form.n, form.k]) if (size.value === size.defaultValue) size.value = SOFTWARE_SIZE;
    }
    if (form.kernel.length > 1) return;
    for (const { name } of engine.kernels) {
      form.kernel.append(element("option", { value: name }, name.startsWith("broken/") ? `${name} (can be made wrong)` : name));
    }
  });

  const showSource = () => {
    $("#source-random").hidden = form.source.value !== "random";
    $("#source-files").hidden = form.source.value !== "files";
  };
  for (const radio of form.source) radio.onchange = showSource;
  showSource();

  form.kernel.onchange = () => {
    const kernel = engine.kernels.find((k) => k.name === form.kernel.value);
    faults.tile.clear();
    $("#tile").hidden = !kernel;
    $("#tunables").replaceChildren(...(kernel?.tunables ?? []).map(tunable));
    showTile();
  };
  const showTile = () => { $("#tile-name").textContent = params(); };
  $("#tunables").oninput = () => { faults.tile.clear(); showTile(); };
  const params = () => [...$("#tunables").querySelectorAll("input, select")].map((i) => `${i.dataset.name}=${i.value}`).join(",");

  // Files are dropped on a zone or chosen in it, and looked at at once.
  const take = async (name, file) => {
    const zone = $(`#drop-${name}`), text = zone.querySelector("span"), fault = faults[name];
    files[name] = null;
    fault.clear();
    faults.b.clear();
    zone.classList.add("filled");
    text.textContent = `${file.name}: reading …`;
    try {
      if (file.size > MAX_FILE) throw new Error(`${file.name} has ${bytes(file.size)}; a page can take files of up to ${bytes(MAX_FILE)}.`);
      const content = new Uint8Array(await file.arrayBuffer());
      const { rows, cols, dtype } = await engine.request("inspect", { name: file.name, bytes: content, column: name === "b" }, { transfer: [content.buffer] });
      files[name] = { file, rows, cols, dtype };
      text.textContent = `${file.name}: ${rows} × ${cols}, ${dtype}`;
    } catch (failure) {
      zone.classList.remove("filled");
      text.textContent = "Drop a file here, or choose one";
      fault.show(failure);
      return;
    }
    if (!files.a || !files.b) return;
    if (files.a.dtype === "f2" && files.b.dtype === "f2") form.dtype.value = "f16";
    fits();
  };
  const fits = () => {
    const { a, b } = files, ok = a.cols === b.rows;
    if (!ok) faults.b.show(`A is ${a.rows} × ${a.cols} and B is ${b.rows} × ${b.cols}: B must have ${a.cols} rows, as A has columns.`);
    return ok;
  };
  for (const name of ["a", "b"]) {
    const zone = $(`#drop-${name}`), input = zone.querySelector("input");
    input.onchange = () => {
      if (input.files.length) take(name, input.files[0]);
      input.value = ""; // so that the same file, changed, can be chosen again
    };
    zone.ondragover = (event) => { event.preventDefault(); zone.classList.add("over"); };
    zone.ondragleave = () => zone.classList.remove("over");
    zone.ondrop = (event) => {
      event.preventDefault();
      zone.classList.remove("over");
      const [first, second] = event.dataTransfer.files;
      if (first) take(name, first);
      if (second) take(name === "a" ? "b" : "a", second);
    };
  }
  // A file that is dragged over the page opens the zones; one dropped beside
  // them does not replace the page.
  addEventListener("dragover", (event) => {
    event.preventDefault();
    if (event.dataTransfer.types.includes("Files") && form.source.value !== "files") {
      form.source.value = "files";
      showSource();
    }
  });
  addEventListener("drop", (event) => event.preventDefault());

  const operands = async () => {
    if (form.source.value === "random") {
      const sizes = wholeNumbers([form.m, form.n, form.k], MAX_SIZE, faults.sizes);
      return sizes && { args: { a: null, b: null, m: sizes[0], n: sizes[1], k: sizes[2] }, transfer: [] };
    }
    for (const name of ["a", "b"]) {
      if (!files[name]) {
        faults[name].show(`${name.toUpperCase()}: no file yet.`);
        return null;
      }
    }
    if (!fits()) return null;
    const contents = await Promise.all(["a", "b"].map(async (name) => new Uint8Array(await files[name].file.arrayBuffer())));
    return {
      args: { a: { name: files.a.file.name, bytes: contents[0] }, b: { name: files.b.file.name, bytes: contents[1] } },
      transfer: contents.map((c) => c.buffer),
    };
  };

  form.onsubmit = (event) => {
    event.preventDefault();
    for (const fault of Object.values(faults)) fault.clear();
    attempt({
      button: form.querySelector("[type=submit]"),
      cancel: $("#multiply-cancel"),
      status: $("#multiply-status"),
      fault: (failure) => faults[failure.field] && (failure.field !== "tile" || form.kernel.value) ? faults[failure.field] : faults.multiply,
    }, async (signal, phase) => {
      const given = await operands();
      if (!given) return;
      const product = await engine.request("multiply", {
        ...given.args, dtype: form.dtype.value, kernel: form.kernel.value, params: params(),
      }, { signal, transfer: given.transfer, progress: (p) => phase(`${p.phase} …`) });
      if (url) URL.revokeObjectURL(url);
      url = URL.createObjectURL(new Blob([product.npy], { type: "application/octet-stream" }));
      result.replaceChildren(...show(product, url));
    });
  };
}

function tunable({ name, type, value, about }) {
  const input = type === "bool"
    ? element("select", {}, ...["false", "true"].map((v) => element("option", { selected: v === value }, v)))
    : element("input", { type: "number", min: 1, value, inputMode: "numeric" });
  input.dataset.name = name;
  input.setAttribute("aria-describedby", "error-tile");
  return element("label", {}, name, element("small", {}, about), input);
}

const PARTS = [["upload", "upload"], ["compile", "compile"], ["compute", "compute"], ["read_back", "read-back"]];

function show(p, url) {
  const { check } = p;
  const total = PARTS.reduce((sum, [key]) => sum + p.seconds[key], 0);
  const bar = element("div", { className: "times", ariaHidden: "true" });
  PARTS.forEach(([key], i) => {
    const part = element("i", { className: `t${i}` });
    part.style.flexGrow = total ? p.seconds[key] / total : 0;
    bar.append(part);
  });
  const badge = check.right
    ? element("span", { className: "badge good" }, "✓ right")
    : element("span", { className: "badge bad" }, p.faulty ? "✗ wrong, on purpose" : "✗ wrong");
  const compared = check.checked === check.elements ? `all ${check.elements.toLocaleString("en")} elements` : `${check.checked.toLocaleString("en")} of ${check.elements.toLocaleString("en")} elements`;
  const worst = check.elements === 0 ? "nothing to compare" : check.right
    ? `${compared} against float64: largest error ${check.max_error.toExponential(2)}, largest error over its bound ${+check.ratio.toPrecision(3)}`
    : `C[${check.row}, ${check.col}] is ${check.got}, want ${check.want} within ${check.bound.toExponential(2)}: ${+check.ratio.toPrecision(3)} times the bound (${compared} compared)`;
  const rows = p.preview.map((row) => row.map((v) => (Number.isFinite(v) ? v.toFixed(4) : String(v))));
  if (rows.length && p.n > rows[0].length) rows.forEach((row) => row.push("…"));
  if (rows.length && p.m > rows.length) rows.push(rows[0].map(() => "…"));
  return [
    element("div", { className: "verdict" },
      element("span", { className: "rate" }, `${+p.gflops.toPrecision(3)} `, element("small", {}, "GFLOP/s")), badge),
    element("p", { className: "hint" }, `C is ${p.m} × ${p.n} of ${p.dtype}, from A ${p.m} × ${p.k} and B ${p.k} × ${p.n}.`),
    bar,
    element("ul", { className: "timekey" }, ...PARTS.map(([key, name], i) =>
      element("li", {}, element("i", { className: `t${i}` }), name, element("b", {}, duration(p.seconds[key]))))),
    definitions([
      ["Variant", element("span", {}, variantName(p.variant), p.tuned ? " (tuned)" : "")],
      ["Grid", p.grid[0] ? `${p.grid[0]} × ${p.grid[1]} workgroups${p.slices ? `, ${p.slices} ${p.slices === 1 ? "slice" : "slices"} of K` : ""}` : "none: the CPU path, in WebAssembly"],
      ["Clock", p.clock === "device" ? "the device’s timestamps" : "the host’s, around the dispatch"],
      ["Check", worst],
    ], "stack"),
    ...(rows.length ? [element("div", { className: "scroll preview", tabIndex: 0 }, table({ caption: "C", head: [], rows }))] : []),
    element("a", { className: "button", href: url, download: "c.npy" }, `Download C (.npy, ${bytes(p.npy.length)})`),
  ];
}
