// Tune: what was measured to be faster than the planner's choice is kept in this browser.

import { $, Fault, attempt, duration, element, table, variantName } from "./ui.js";

const SIZES = [32, 64, 128, 256, 512, 1024, 2048, 4096]; // what is kept holds up to a power of two

export function initTune(engine) {
  const form = $("#tune-form"), largest = $("#benchmark-form").largest, fault = new Fault("error-tune", engine);
  const run = form.querySelector("[type=submit]"), forget = $("#tune-forget"), progress = $("#tune-progress");
  const measured = new Map(); // in this visit, by size

  const upTo = () => { $("#tune-largest").textContent = largest.value; };
  largest.addEventListener("change", upTo);

  engine.addEventListener("device", () => {
    upTo();
    run.disabled = !engine.device.adapter;
    if (engine.tuning.problem) fault.show(`What this browser keeps for this device is ignored: ${engine.tuning.problem}. Tune again, or forget it.`);
    else fault.clear();
    draw();
  });

  form.onsubmit = async (event) => {
    event.preventDefault();
    fault.clear();
    const seconds = Number(form.seconds.value), start = performance.now(), skipped = new Map();
    progress.value = 0;
    progress.hidden = false;
    const timer = setInterval(() => { progress.value = (performance.now() - start) / 1000 / seconds; }, 200);
    forget.disabled = true;
    await attempt({ button: run, cancel: $("#tune-cancel"), status: $("#tune-status"), fault: () => fault }, async (signal, phase) => {
      let done = 0;
      await engine.request("tune", { sizes: SIZES.filter((n) => n <= Number(largest.value)), seconds }, {
        signal,
        progress: (p) => {
          if (p.phase) return phase(p.phase);
          if (p.note) return skipped.set(p.note, [...(skipped.get(p.note) ?? []), p.size]);
          done++;
          measured.set(String(p.size), p.measured);
          try {
            engine.keepTuning(p.text);
          } catch (error) {
            fault.show(`What was tuned holds until the page is closed, as this browser keeps nothing: ${error.message}`);
          }
          draw();
        },
      });
      return [`Measured ${done} ${done === 1 ? "size" : "sizes"}.`, ...[...skipped].map(([why, sizes]) => `${sizes.join(", ")} not measured: ${why}.`)].join(" ");
    });
    clearInterval(timer);
    progress.hidden = true;
    draw();
  };

  forget.onclick = async () => {
    try {
      await engine.forgetTuning();
      measured.clear();
      fault.clear();
      $("#tune-status").textContent = "Forgotten: the planner chooses.";
    } catch (failure) {
      fault.show(failure);
    }
    draw();
  };

  const draw = () => {
    const { text, problem } = engine.tuning, place = $("#tune-table");
    forget.disabled = run.disabled || (!text && !problem);
    // Lines of a class and its choice, as "1x64x64x64 f32 f32 rows4 rows4", a tab, and the choice.
    const kept = new Map(text.split("\n").filter((line) => line.includes("\t")).map((line) => [line.split("x")[1], line.split("\t")[1]]));
    const sizes = [...new Set([...kept.keys(), ...measured.keys()])].sort((a, b) => a - b);
    place.hidden = !sizes.length;
    place.replaceChildren(table({
      caption: "What Multiply and the benchmark take for sizes that are multiples of 4",
      head: ["Size", "Choice", measured.size ? "Time of a product" : ""],
      rows: sizes.map((n) => {
        const m = measured.get(n), choice = kept.get(n);
        const faster = choice && m?.planned_seconds ? `, ${(m.planned_seconds / m.seconds).toFixed(2)} times as fast as the planner’s` : "";
        return [
          `${n / 2 + 1} to ${n}`,
          choice ? element("span", {}, variantName(choice), " (tuned)") : "the planner’s",
          m ? duration(m.seconds) + faster : "",
        ];
      }),
    }));
  };
}
