// Small helpers of the sections.

/** Makes an HTML element: properties, then children. */
export function element(name, properties = {}, ...children) {
  const e = Object.assign(document.createElement(name), properties);
  e.append(...children);
  return e;
}

export const $ = (selector) => document.querySelector(selector);

/** The name of a variant, which may break after each tunable. */
export function variantName(name) {
  return element("code", {}, ...name.split(/(?<=,)/).flatMap((part) => [part, element("wbr")]));
}

/** A table of text; columns named in `numbers` are set to the right. */
export function table({ head, rows, numbers = [], caption }) {
  const cell = (tag) => (content, i) => element(tag, { className: numbers.includes(i) ? "number" : "" }, content);
  return element("table", {},
    ...(caption ? [element("caption", {}, caption)] : []),
    element("thead", {}, element("tr", {}, ...head.map(cell("th")))),
    element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map(cell("td"))))),
  );
}

/** A list of names with what they are. */
export function definitions(pairs, className = "") {
  return element("dl", { className }, ...pairs.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
}

export function bytes(n) {
  for (const [unit, size] of [["TiB", 2 ** 40], ["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]]) {
    if (n >= size) return `${+(n / size).toFixed(2)} ${unit}`;
  }
  return `${n} bytes`;
}

export function duration(seconds) {
  if (seconds >= 1) return `${seconds.toFixed(2)} s`;
  return `${+(1000 * seconds).toPrecision(3)} ms`;
}

/** Every digit of a number, as Go and Python write it. */
export function exact(v) {
  if (v === 0 || Math.abs(v) >= 1e-4) return String(v);
  return v.toExponential().replace(/e-(\d)$/, "e-0$1");
}

/** A number to four decimals, without trailing zeros but the first. */
export function decimals(v) {
  return v.toFixed(4).replace(/(\.\d+?)0+$/, "$1");
}

export function save(blob, name) {
  const url = URL.createObjectURL(blob);
  element("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

const BYTE_LIMIT = /^max(Buffer|StorageBufferBinding|UniformBufferBinding|ComputeWorkgroupStorage)Size$|^memory/;

/** What a visitor reads about a failure. */
export function explain(failure) {
  switch (failure.kind) {
    case "limit": {
      const amount = BYTE_LIMIT.test(failure.limit) ? bytes : (n) => n.toLocaleString("en");
      const whose = failure.limit.startsWith("max") ? "this adapter’s limit " : "the ";
      return `${failure.what.replace(/,$/, "")}: over ${whose}${failure.limit}, which is ${amount(failure.have)}; needed are ${amount(failure.need)}.`;
    }
    case "lost":
      return `The GPU device is lost (${failure.message}). What was on it is gone, and it takes no more work.`;
    case "memory":
      return `The GPU has no memory left for this: ${failure.message}. Take smaller sizes, or close other pages that use the GPU.`;
    case "broken":
      return `${failure.message} It starts again with what you do next.`;
    default:
      return failure.message;
  }
}

/** The error of a control: its text, and the mark on the controls it describes. */
export class Fault {
  constructor(id, engine) {
    this.place = document.getElementById(id);
    this.engine = engine;
    this.controls = document.querySelectorAll(`[aria-describedby="${id}"]`);
  }

  clear() {
    this.place.hidden = true;
    this.place.replaceChildren();
    for (const c of this.controls) c.removeAttribute("aria-invalid");
  }

  /** @param {Error | string} failure */
  show(failure, controls = this.controls) {
    this.place.replaceChildren(typeof failure === "string" ? failure : explain(failure));
    for (const c of controls) c.setAttribute("aria-invalid", "true");
    if (failure.kind === "lost") {
      const reopen = element("button", { type: "button" }, "Reopen the device");
      reopen.onclick = async () => {
        reopen.disabled = true;
        await this.engine.open();
        this.clear();
      };
      this.place.append(reopen);
    }
    this.place.hidden = false;
  }
}

/**
 * Reads whole numbers from inputs, or shows what is wrong and returns null.
 * @param {HTMLInputElement[]} inputs
 */
export function wholeNumbers(inputs, most, fault) {
  const values = inputs.map((i) => (/^\d+$/.test(i.value.trim()) ? Number(i.value) : NaN));
  const wrong = inputs.filter((_, i) => !(values[i] >= 1 && values[i] <= most));
  if (!wrong.length) return values;
  const names = wrong.map((i) => i.name.length === 1 ? i.name : i.name.toUpperCase());
  fault.show(`${names.join(", ")}: a whole number from 1 to ${most.toLocaleString("en")} is wanted.`, wrong);
  return null;
}

/**
 * Runs work with its button off, its cancel button there, and its errors shown.
 * @param {{button: HTMLButtonElement, cancel?: HTMLButtonElement, status: HTMLElement, fault: (failure: Error) => Fault}} controls
 * @param {(signal: AbortSignal, phase: (text: string) => void) => Promise<string | void>} work returns what the status says at its end
 */
export async function attempt({ button, cancel, status, fault }, work) {
  const abort = new AbortController();
  const phase = (text) => { status.textContent = text; };
  button.disabled = true;
  if (cancel) {
    cancel.hidden = false;
    cancel.onclick = () => { phase("canceling …"); abort.abort(); };
  }
  try {
    phase((await work(abort.signal, phase)) ?? "");
  } catch (failure) {
    if (failure.kind === "canceled") {
      phase("Canceled.");
    } else {
      phase("");
      fault(failure).show(failure);
    }
  } finally {
    button.disabled = false;
    if (cancel) cancel.hidden = true;
  }
}
