// Benchmark: GFLOP/s over size, drawn while it runs.

import { Chart, legend, toPNG } from "./chart.js";
import { $, Fault, attempt, duration, element, save, table } from "./ui.js";

const SIZES = [32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096];
const SERIES = ["gemm_naive", "gemm_tiled", "planned"];
const NAMES = ["gemm_naive", "gemm_tiled", "planner’s choice"];

export function initBenchmark(engine) {
  const form = $("#benchmark-form"), fault = new Fault("error-benchmark", engine);
  const run = form.querySelector("[type=submit]"), csv = $("#benchmark-csv"), png = $("#benchmark-png");
  const figure = $("#benchmark-chart"), progress = $("#benchmark-progress");
  let chart = null, points = [], adapter = null;

  engine.addEventListener("device", () => {
    ({ adapter } = engine.device);
    run.disabled = !adapter;
    if (!points.length) form.largest.value = adapter?.type === "software adapter" ? "256" : "2048";
    if (adapter) fault.clear();
    else fault.show("There is no device to measure: see the notice at the top of the page.");
  });

  form.onsubmit = async (event) => {
    event.preventDefault();
    fault.clear();
    points = [];
    const notes = [];
    progress.value = 0;
    progress.hidden = figure.hidden = false;
    csv.disabled = png.disabled = true;
    if (!chart) {
      chart = new Chart(figure.firstElementChild, {
        x: { label: "m = n = k", scale: "log" },
        y: { label: "GFLOP/s", scale: "linear" },
        describe: (series) => `GFLOP/s over size. ${series.filter((s) => s.points.length).map((s) => `${s.name}: ${s.points.map(([x, y]) => `${+y.toPrecision(3)} at ${x}`).join(", ")}`).join(". ")}`,
      });
      figure.append(legend(NAMES));
    }
    draw();
    const sizes = SIZES.filter((n) => n <= Number(form.largest.value));
    await attempt({ button: run, cancel: $("#benchmark-cancel"), status: $("#benchmark-status"), fault: () => fault }, async (signal, phase) => {
      phase("warming up …");
      await engine.request("benchmark", { sizes }, {
        signal,
        progress: (p) => {
          if (p.phase) return phase(p.phase);
          progress.value = p.done / p.total;
          if (p.note) notes.push(`${NAMES[SERIES.indexOf(p.series)]} from ${p.size} on ${p.note}`);
          if (p.variant) points.push(p);
          phase(`${p.done} of ${p.total}: ${NAMES[SERIES.indexOf(p.series)]} at ${p.size}`);
          draw();
        },
      });
      return ["Done.", ...notes.map((n) => `${n}.`)].join(" ");
    });
    progress.hidden = true;
    csv.disabled = png.disabled = !points.length;
  };

  const draw = () => {
    chart.update(SERIES.map((name, i) => ({ name: NAMES[i], points: points.filter((p) => p.series === name).map((p) => [p.size, p.gflops]) })));
    const sizes = [...new Set(points.map((p) => p.size))];
    const at = (n, series) => points.find((p) => p.size === n && p.series === series);
    const place = $("#benchmark-table");
    place.hidden = !points.length;
    place.replaceChildren(table({
      caption: "GFLOP/s, and the time of one product",
      head: ["Size", ...NAMES],
      rows: sizes.map((n) => [String(n), ...SERIES.map((s) => {
        const p = at(n, s);
        return p ? element("span", { title: p.variant }, `${p.gflops.toPrecision(3)} · ${duration(p.seconds)}${p.tuned ? " (tuned)" : ""}`) : "";
      })]),
      numbers: [0, 1, 2, 3],
    }));
  };

  const fileName = (ending) => `wgemm-benchmark.${ending}`;
  csv.onclick = () => {
    const quoted = (s) => `"${s.replaceAll('"', '""')}"`;
    const lines = points.map((p) => [p.size, quoted(NAMES[SERIES.indexOf(p.series)]), quoted(p.variant), p.tuned, p.gflops, p.seconds, p.repeats, quoted(adapter.name), quoted(adapter.type)].join(","));
    save(new Blob([["size,series,variant,tuned,gflops,seconds,repeats,adapter,adapter_type", ...lines, ""].join("\n")], { type: "text/csv" }), fileName("csv"));
  };
  png.onclick = async () => {
    try {
      save(await toPNG(figure.firstElementChild, NAMES), fileName("png"));
    } catch (error) {
      fault.show(`The picture could not be made: ${error.message}`);
    }
  };
}
