// The chapter: the walk along K, the masks, the accumulator, and every example.

import { Chart, legend, svg } from "./chart.js";
import { $, Fault, attempt, decimals, element, exact, table, variantName, wholeNumbers } from "./ui.js";

export function initChapter(engine) {
  engine.addEventListener("device", () => {
    $("#chapter-where").textContent = engine.device.adapter ? "" : ", here on the CPU path, which follows them step by step";
  });
  initWalk(engine);
  initMasks(engine);
  initAccumulator(engine);
  initExamples(engine);
}

// The walk along K

const STEP_MS = 750;
const GAP = 1.6; // between the matrices, in cells

function initWalk(engine) {
  const form = $("#walk-form"), scrub = $("#walk-scrub"), play = $("#walk-play"), caption = $("#walk-caption");
  const fault = new Fault("error-walk", engine);
  const inputs = ["m", "n", "k", "bm", "bn", "bk"].map((name) => form[name]);
  let walk = null, timer = 0, asked = 0;

  const show = (i) => {
    scrub.value = i;
    const frame = walk.frames[i];
    $("#walk-picture").replaceChildren(picture(walk, frame));
    caption.textContent = describe(walk, frame, i);
    scrub.setAttribute("aria-valuetext", `step ${i + 1} of ${walk.frames.length}`);
  };
  const pause = () => {
    clearInterval(timer);
    timer = 0;
    play.textContent = "Play";
    caption.setAttribute("aria-live", "polite");
  };
  const move = (by) => show((scrub.valueAsNumber + by + walk.frames.length) % walk.frames.length);
  play.onclick = () => {
    if (timer) return pause();
    caption.setAttribute("aria-live", "off"); // a reader could not keep pace
    play.textContent = "Pause";
    timer = setInterval(() => (scrub.valueAsNumber === walk.frames.length - 1 ? pause() : move(1)), STEP_MS);
    if (scrub.valueAsNumber === walk.frames.length - 1) show(0);
  };
  $("#walk-step").onclick = () => { pause(); move(1); };
  $("#walk-back").onclick = () => { pause(); move(-1); };
  scrub.oninput = () => { pause(); show(scrub.valueAsNumber); };

  const load = async () => {
    fault.clear();
    const sizes = wholeNumbers(inputs, 16, fault);
    if (!sizes) return;
    const [m, n, k, bm, bn, bk] = sizes, mine = ++asked;
    try {
      const frames = await engine.request("walk", { m, n, k, bm, bn, bk });
      if (mine !== asked) return; // other sizes were asked for meanwhile
      walk = { m, n, k, bm, bn, bk, ...frames };
    } catch (failure) {
      return fault.show(failure);
    }
    pause();
    scrub.max = walk.frames.length - 1;
    show(0);
  };
  form.onchange = load;
  form.onsubmit = (event) => event.preventDefault();
  for (const button of form.querySelectorAll("[data-preset]")) {
    button.onclick = () => {
      button.dataset.preset.split(",").forEach((v, i) => { inputs[i].value = v; });
      load();
    };
  }
  engine.addEventListener("device", load, { once: true });
}

/** A left of C and B above it, so that what meets in a tile of C lies in its row and column. */
function picture(walk, frame) {
  const reach = (size, tile) => Math.ceil(size / tile) * tile;
  const rows = reach(walk.m, walk.bm), cols = reach(walk.n, walk.bn), depth = reach(walk.k, walk.bk);
  const left = depth + GAP, top = depth + GAP;
  const root = svg("svg", { viewBox: `-0.1 -0.1 ${left + cols + 0.2} ${top + rows + 0.2}`, role: "img", "aria-label": describe(walk, frame, -1) });
  root.append(svg("defs", {}, svg("pattern", { id: "hatch", width: 0.3, height: 0.3, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    svg("line", { class: "hatch", x1: 0, y1: 0, x2: 0, y2: 0.3 }))));
  const matrix = (name, lines, x, y, extra = () => ({})) => {
    lines.forEach((line, i) => [...line].forEach((cell, j) => {
      if (cell === " ") return;
      const state = { "#": "staged", x: "masked" }[cell] ?? "";
      root.append(svg("rect", { class: `cell ${name} ${state}`, x: x + j + 0.05, y: y + i + 0.05, width: 0.9, height: 0.9, rx: 0.15, ...extra(i, j, cell) }));
    }));
  };
  const current = frame.row * walk.cols + frame.col;
  matrix("a", frame.a, 0, top);
  matrix("b", frame.b, left, 0);
  matrix("c", frame.c, left, top, (i, j, cell) => {
    const tile = Math.floor(i / walk.bm) * walk.cols + Math.floor(j / walk.bn);
    if (tile < current && cell === ".") return { class: "cell c done" };
    return cell === "#" ? { "fill-opacity": (frame.slice + 1) / walk.slices } : {};
  });
  const edge = (x, y, width, height) => root.append(svg("rect", { class: "tile-edge", x, y, width, height, rx: 0.2 }));
  edge(frame.slice * walk.bk, top + frame.row * walk.bm, walk.bk, walk.bm);
  edge(left + frame.col * walk.bn, frame.slice * walk.bk, walk.bn, walk.bk);
  edge(left + frame.col * walk.bn, top + frame.row * walk.bm, walk.bn, walk.bm);
  const name = (text, x, y) => root.append(svg("text", { class: `matrix-name ${text.toLowerCase()}`, x, y }, text));
  name("A", depth / 2, top - 0.45);
  name("B", left - 0.8, depth / 2 + 0.3);
  name("C", left + cols / 2, top - 0.45);
  return root;
}

function describe(walk, { row, col, slice }, i) {
  const range = (one, many, i, tile, size) => {
    const from = i * tile, to = Math.min(from + tile, size) - 1;
    return to > from ? `${many} ${from}–${to}` : `${one} ${from}`;
  };
  const rows = range("Row", "Rows", row, walk.bm, walk.m), cols = range("column", "columns", col, walk.bn, walk.n), depth = range("kk =", "kk =", slice, walk.bk, walk.k);
  const step = i < 0 ? "" : `Step ${i + 1} of ${walk.frames.length}: `;
  const end = slice === walk.slices - 1 ? " The walk ends, and the tile is stored." : "";
  return `${step}workgroup (${row}, ${col}) of ${walk.rows} × ${walk.cols}, K-iteration ${slice + 1} of ${walk.slices}. ${rows} of A times ${cols} of B, over ${depth}.${end}`;
}

// The masks

function initMasks(engine) {
  const form = $("#masks-form"), fault = new Fault("error-masks", engine);
  const load = async () => {
    const on = { m: form.m.checked, n: form.n.checked, k: form.k.checked };
    try {
      const result = await engine.request("masks", on);
      fault.clear();
      for (const old of document.querySelectorAll("#masks > div")) old.remove();
      $("#masks").append(...grids(result, on));
      $("#masks-lesson").textContent = lesson(result, on);
    } catch (failure) {
      fault.show(failure);
    }
  };
  form.onchange = load;
  engine.addEventListener("device", load);
}

function grids({ m, n, k, a, b, c, want, wrong }, on) {
  const rows = on.m ? m : a.length, cols = on.n ? n : b[0].length, depth = on.k ? k : b.length;
  const grid = (name, about, values, cell) => {
    const cells = element("div", { className: "grid-of" });
    cells.style.gridTemplateColumns = `repeat(${values[0].length}, minmax(0, 1fr))`;
    values.forEach((line, i) => line.forEach((v, j) => cells.append(cell(v, i, j))));
    return element("div", { className: `of-${name.toLowerCase()}` }, element("h4", {}, element("b", { className: name.toLowerCase() }, name), " ", element("small", {}, about)), cells);
  };
  const short = (v) => (v === 999 ? "999" : Math.abs(v) >= 1e5 ? v.toFixed(1) : decimals(v));
  const operand = (inside, read) => (v, i, j) => {
    const classes = [inside(i, j) ? "inside" : "outside", read(i, j) ? "read" : ""];
    return element("span", { className: classes.join(" "), title: read(i, j) ? "read" : "not read" }, short(v));
  };
  const error = (e) => (e === 0 ? "0" : `${e > 0 ? "+" : "−"}${Math.abs(e).toExponential(0).replace("e+0", "").replace("e+", "e")}`);
  const output = (v, i, j) => {
    const inside = i < m && j < n, difference = v - want[i][j];
    const about = !inside ? (wrong[i][j] ? "written over" : "") : wrong[i][j] ? error(difference) : "right";
    const cell = element("span", { className: `${inside ? "inside" : "outside"} ${wrong[i][j] ? "wrong" : ""}` }, short(v), element("small", {}, about || " "));
    cell.style.setProperty("--heat", Math.min(Math.log10(1 + Math.abs(difference)) / 7, 1));
    return cell;
  };
  return [
    grid("B", "outlined: what the kernel reads", b, operand((i, j) => i < k && j < n, (i, j) => i < depth && j < cols)),
    grid("A", "outlined: what the kernel reads", a, operand((i, j) => i < m && j < k, (i, j) => i < rows && j < depth)),
    grid("C", "value and error, darker for a larger one", c, output),
  ];
}

function lesson({ m, n, k, b, wrong }, on) {
  let inside = 0, around = 0;
  wrong.forEach((line, i) => line.forEach((bad, j) => {
    if (bad && i < m && j < n) inside++;
    else if (bad) around++;
  }));
  if (on.m && on.n && on.k) return `With all three masks C is right, and nothing around it has changed.`;
  const said = [];
  if (!on.k) said.push(`Without the mask on K the last slice reaches past k = ${k} and adds ${b.length - k} times 999 squared to each element: ${inside} of ${m * n} elements of C are wrong.`);
  if (!on.m || !on.n) {
    const missing = [!on.m && "M", !on.n && "N"].filter(Boolean).join(" and ");
    said.push(`Without the mask on ${missing} whole tiles are stored: ${around} elements around C, which belong to somebody else, were written over.`);
    if (on.k) said.push("C itself stays right, since what lies past m and n only meets rows and columns past them.");
  }
  return said.join(" ");
}

// The accumulator

function initAccumulator(engine) {
  const names = ["binary16 accumulator", "binary32 accumulator"];
  const figure = $("#accumulator"), fault = new Fault("error-accumulator", engine);
  let chart = null;
  $("#accumulator-run").onclick = () => attempt({
    button: $("#accumulator-run"), cancel: $("#accumulator-cancel"), status: $("#accumulator-status"),
    fault: () => fault,
  }, async (signal, phase) => {
    fault.clear();
    figure.hidden = false;
    $("#accumulator-values").replaceChildren();
    if (!chart) {
      chart = new Chart(figure.firstElementChild, {
        x: { label: "K", scale: "log", ticks: [8, 16, 32, 64, 128, 256, 512, 1024] },
        y: { label: "largest error", scale: "log" },
        describe: ([f16]) => `Largest error over K for an accumulator of binary16 and one of binary32${f16 ? `, ${f16.points.length} values of K` : ""}.`,
      });
      figure.append(legend(names));
    }
    const points = [[], []];
    let last = null;
    await engine.request("accumulator", {}, {
      signal,
      progress: (p) => {
        if (!p.k) return;
        last = p;
        points[0].push([p.k, p.f16]);
        points[1].push([p.k, p.f32]);
        phase(`K = ${p.k}`);
        chart.update(names.map((name, i) => ({ name, points: points[i] })));
      },
    });
    $("#accumulator-values").replaceChildren(
      element("div", {}, `binary32 accumulator, K = ${last.k}: largest error`, element("b", {}, exact(last.f32))),
      element("div", {}, `binary16 accumulator, K = ${last.k}: largest error`, element("b", {}, exact(last.f16))),
      element("div", {}, "the second over the first", element("b", {}, `${(last.f16 / last.f32).toFixed(1)} ×`)),
    );
  });
}

// Every worked example

function initExamples(engine) {
  const fault = new Fault("error-examples", engine), place = $("#examples");
  $("#examples-run").onclick = () => attempt({
    button: $("#examples-run"), status: $("#examples-status"), fault: () => fault,
  }, async (signal, phase) => {
    fault.clear();
    phase("computing …");
    const rows = [];
    let surprises = 0;
    await engine.request("examples", {}, {
      signal,
      progress: (x) => {
        if (!x.title) return;
        const right = x.wrong === 0;
        if (right === x.faulty) surprises++;
        const verdict = right ? element("span", { className: "badge good" }, "right")
          : element("span", { className: x.faulty ? "badge soft" : "badge bad" }, `${x.wrong} of ${x.elements} wrong${x.faulty ? ", on purpose" : ""}`);
        rows.push([x.section, element("div", {}, element("b", {}, x.title), element("br"), x.label, element("br"), variantName(x.variant)), exact(x.max_error), verdict]);
        place.replaceChildren(table({ head: ["Section", "Example", "Largest error", "Check"], rows, numbers: [2] }));
        place.hidden = false;
      },
    });
    return surprises ? `${surprises} results are not as they must be.` : "Every result is as it must be.";
  });
}
